#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "interference/features.hpp"

namespace dynpipe::interference {

/// XGBoost's trees: what the forest uses of its C interface, with C++ lifetimes and errors. One
/// thread at a time. What the library refuses is a RunError with its reason.
class Booster {
 public:
  using Parameters = std::vector<std::pair<std::string, std::string>>;  ///< XGBoost's own names

  /// Grown in `rounds` rounds on rows and their labels.
  static Booster grow(std::span<const FeatureRow> rows, std::span<const float> labels,
                      const Parameters& parameters, int rounds);
  /// From what `json` returned.
  static Booster from_json(const std::string& text);
  ~Booster();
  Booster(Booster&&) noexcept;
  Booster& operator=(Booster&&) noexcept;

  std::string json() const;
  /// The leaf that each row reaches in each tree, by its node number: rows x trees.
  std::vector<std::int32_t> leaves(std::span<const FeatureRow> rows) const;
  /// What each feature, and last the constant, adds to the rows' sums over trees: rows x
  /// (k_features + 1) (Shapley values;
  /// Lundberg et al., "Consistent individualized feature attribution for tree ensembles", 2018).
  std::vector<float> contributions(std::span<const FeatureRow> rows) const;

 private:
  struct Handle;
  explicit Booster(std::unique_ptr<Handle> handle);
  std::unique_ptr<Handle> handle_;
};

/// Version of the library that is loaded: "1.7.4".
std::string xgboost_version();

}  // namespace dynpipe::interference
