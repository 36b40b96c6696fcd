#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/run_events.hpp"

namespace dynpipe::app {

/// Sums of an epoch so far.
struct EpochTotals {
  double loss_sum = 0, correct = 0, samples = 0;
  double train_s = 0;
  double loss() const { return samples > 0 ? loss_sum / samples : 0; }
  double accuracy() const { return samples > 0 ? correct / samples : 0; }
};

/// What a run has to tell of itself so far, and takes along when it is resumed.
struct RunProgress {
  std::vector<EpochResult> epochs;  ///< that are over, with their evaluation
  EpochTotals totals;               ///< of the epoch under way
};

/// Epochs as the summary and checkpoints have them.
nlohmann::ordered_json epochs_json(const std::vector<EpochResult>& epochs);

/// JSON, exact.
std::string to_json(const RunProgress& progress);
/// Throws InputError naming `file` and the field that is wrong.
RunProgress parse_run_progress(const std::string& text, const std::string& file);

/// Whether `result` is better than `best`: a higher test accuracy or, at the same, a lower loss.
bool is_better(const EpochResult& result, const EpochResult& best);
/// The best of these epochs; empty if there are none.
std::optional<EpochResult> best_of(const std::vector<EpochResult>& epochs);

}  // namespace dynpipe::app
