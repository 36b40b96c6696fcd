#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "app/run_events.hpp"

namespace dynpipe::app {

/// What bars are drawn with.
enum class Charset {
  ascii,  ///< whole cells: "####    "
  blocks  ///< UTF-8 block characters, to an eighth of a cell: "███▍    "
};

/// Columns of a text on a terminal: its UTF-8 characters, each one wide.
std::size_t columns_of(std::string_view text);

/// A bar of `width` columns, `share` (0 to 1) of which is filled.
std::string bar(double share, std::size_t width, Charset charset);

/// "0:42", "1:02:03"
std::string duration_text(double seconds);

/// A loss in a fixed width, however far it has gone astray.
std::string loss_text(double loss);

/// Where an epoch is.
struct ProgressState {
  std::int64_t epoch = 0, epochs = 0;          ///< from 1
  std::int64_t update = 0, total_updates = 0;  ///< made, of the run
  double epoch_done = 0;                       ///< share of those that the epoch will have
  double loss = 0, accuracy = 0;               ///< of the epoch so far
  double samples_per_s = 0, eta_s = 0;
  bool evaluating = false;
  bool virtual_time = false;  ///< its seconds are those of an emulated cluster
};

/// "s", "virtual s"
std::string_view second_text(bool virtual_time);

/// One line of at most `width` columns: bar, updates, loss, accuracy, speed, time left. What fits
/// no more is left out, the least telling first.
std::string progress_row(const ProgressState& state, std::size_t width, Charset charset);

/// One line of at most `width` columns: how busy each stage is, beside one another; where not all
/// fit, the busiest, in their order, and how many they are.
std::string stage_row(std::span<const StageLoad> loads, std::size_t width, Charset charset);

/// The same for a log: "busy 93 88 %"; of more than eight stages, the range and the busiest.
std::string stage_words(std::span<const StageLoad> loads);

/// An update's line in a log, all of the above in it.
std::string log_line(const GroupEvent& event, const RunExtent& extent);

/// What remains of an epoch: losses, and accuracies in brackets. A second line says so where the
/// run ended within it.
std::string epoch_line(const EvaluationEvent& event, const RunExtent& extent);

/// A checkpoint that is complete: where, how large, what it cost.
std::string checkpoint_line(const CheckpointEvent& event);

}  // namespace dynpipe::app
