#pragma once

#include <array>
#include <span>
#include <string_view>

#include "interference/environment.hpp"
#include "interference/stage_features.hpp"

namespace dynpipe::interference {

/// Changes with every change of the vector or of its meaning: a forest of another one is refused.
inline constexpr int k_feature_version = 1;
inline constexpr std::size_t k_features = 24;

/// One row for the forest; NaN where a figure is unknown.
using FeatureRow = std::array<float, k_features>;

struct FeatureInfo {
  std::string_view name, unit, meaning;
};
/// In the order of the row. "log2" in a unit: the binary logarithm of a quantity in it.
std::span<const FeatureInfo, k_features> feature_table();

/// A rank's surroundings, measured while it ran `environment.stage`, and a stage that it might run
/// instead. The first feature is the logarithm of the measured slowdown.
FeatureRow features(const Environment& environment, const StageFeatures& candidate);

}  // namespace dynpipe::interference
