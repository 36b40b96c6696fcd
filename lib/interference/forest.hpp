#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "interference/booster.hpp"
#include "interference/features.hpp"

namespace dynpipe::interference {

/// How trees are grown: all at once, each by itself, or in rounds, each on what the earlier ones
/// left over.
enum class ForestKind : bool { random, boosted };
std::string_view name_of(ForestKind kind);

/// What a rank would take for a stage, over the stage's undisturbed time.
struct Prediction {
  double slowdown = 1;
  double error = 0;      ///< relative; about two of three true values are within it
  bool in_range = true;  ///< all features are within what the forest was trained on

  /// Chance that the true slowdown is within a tenth of the predicted, if errors are normal.
  double confidence() const;
};

/// How far predictions were off.
struct Accuracy {
  std::int64_t rows = 0;
  double mae = 0;                ///< mean |predicted - true slowdown|
  double relative = 0;           ///< mean |predicted / true - 1|
  double measured_mae = 0;       ///< the same of the measured slowdown, taken for the prediction
  double measured_relative = 0;  ///< likewise

  friend bool operator==(const Accuracy&, const Accuracy&) = default;
};

/// Where a feature lay when the forest was trained.
struct FeatureRange {
  float low = 0, high = 0;
  bool unknown = false;  ///< it was also seen unknown
};

/// What a forest's file says of it.
struct ForestFacts {
  ForestKind kind = ForestKind::boosted;
  int rounds = 1, parallel_trees = 1;
  std::array<FeatureRange, k_features> ranges{};
  /// Mean of each feature's part in a prediction, without sign, in binary orders of slowdown.
  std::array<double, k_features> importance{};
  double label_noise = 0;   ///< mean relative difference of a true slowdown measured twice
  double spread_scale = 1;  ///< error for a spread of 1 between trees, from held-out examples
  Accuracy held_out;        ///< on layer mixes that it had not seen
  std::map<std::string, Accuracy> held_out_by_mix;
  std::int64_t rows = 0;  ///< that it was trained on
  std::string data;       ///< the data set's name
  std::string machine;    ///< that the data set is from
};

/// The version of a forest's file that is written and read.
inline constexpr int k_forest_version = 1;

/// Trees that correct a measured slowdown: the logarithm of the measured is a row's first feature,
/// to which they add. So a forest without trees predicts the measured slowdown, and what trees do
/// not know (a slowdown beyond all they have seen) still counts in full.
///
/// The error of a prediction is the larger the more the trees disagree. Trees at the same place of
/// each round make up a member, whose prediction is the mean of forests like it: in a random forest
/// every tree is one. Its relative error is sqrt(label_noise^2 + (spread_scale spread)^2), spread
/// being the standard deviation over members; the scale was fitted on held-out examples.
class Forest {
 public:
  /// Throws InputError where the trees are not such as `facts` says.
  Forest(ForestFacts facts, Booster booster);
  /// Throws InputError naming file and field: no forest of this program, one of another version or
  /// of other features.
  static Forest parse(std::string_view json_text, const std::string& file);
  /// What `parse` reads: facts laid out for people, then the trees.
  std::string to_json() const;

  const ForestFacts& facts() const { return facts_; }
  /// Equal rows are scored once. One thread at a time.
  std::vector<Prediction> predict(std::span<const FeatureRow> rows) const;
  Prediction predict(const FeatureRow& row) const { return predict(std::span(&row, 1)).front(); }
  /// Numbers of the features that lie outside what the forest was trained on.
  std::vector<std::size_t> outside(const FeatureRow& row) const;
  /// What each feature, and last the trees' constant, adds to the logarithm (base 2) of the
  /// measured slowdown.
  std::vector<float> contributions(const FeatureRow& row) const;
  /// Means over rows of each feature's contribution without its sign.
  std::array<double, k_features> importance_on(std::span<const FeatureRow> rows) const;
  /// Standard deviation over members of the predicted logarithm.
  std::vector<double> spreads(std::span<const FeatureRow> rows) const;

  void set_facts(ForestFacts facts) { facts_ = std::move(facts); }

 private:
  /// Mean and standard deviation over members of what the trees add.
  struct Sum {
    double mean = 0, spread = 0;
  };
  std::vector<Sum> sums(std::span<const FeatureRow> rows) const;

  ForestFacts facts_;
  Booster booster_;
  std::vector<std::vector<float>> leaf_values_;  ///< by tree and node
};

}  // namespace dynpipe::interference
