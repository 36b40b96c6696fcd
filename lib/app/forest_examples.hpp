#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/forest_data.hpp"
#include "interference/forest_training.hpp"

namespace dynpipe::app {

/// A data set as what a forest learns from.
struct ForestExamples {
  std::vector<interference::Example> examples;
  std::vector<std::string> mixes;   ///< by number
  std::vector<std::string> causes;  ///< disturbances, by number; the first is "none"
  /// Mean relative difference of a slowdown measured twice, a moment apart, under one disturbance,
  /// and where there was none.
  double label_noise = 0, quiet_noise = 0;
};

/// Every ordered pair of slices of a window with two stages, or of one stage run twice, is an
/// example: what was measured in the first, and what the stage of the second took, the mean of its
/// slices other than the first. Undisturbed times are the medians of a stage's quiet slices. The
/// slowdowns by bound are left out of every other example, as training does not always know them.
/// Throws InputError for a data set without quiet slices of a stage or with nothing disturbed.
ForestExamples examples_of(const ForestData& data);

}  // namespace dynpipe::app
