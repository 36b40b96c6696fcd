#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pipeline/stage_times.hpp"
#include "pipeline/step_recorder.hpp"

namespace dynpipe::app {

struct EpochResult {
  std::int64_t epoch = 0;  ///< from 1
  double train_loss = 0, train_accuracy = 0, test_loss = 0, test_accuracy = 0;
  double wall_s = 0;   ///< training and evaluation
  double train_s = 0;  ///< training alone
  std::int64_t samples = 0;
};

/// How long a run is.
struct RunExtent {
  std::int64_t epochs = 0, groups_per_epoch = 0, total_updates = 0;
  bool virtual_time = false;  ///< its seconds are those of an emulated cluster
};

/// How a stage's ranks spend their time, of late: shares of it, 0 to 1, the mean over replicas.
struct StageLoad {
  int stage = 0;
  double busy = 0, waiting = 0;
  bool known = false;  ///< false until something was heard of it
};

/// An update group whose loss has come to rank 0.
struct GroupEvent {
  std::int64_t epoch = 0, update = 0;  ///< from 1
  std::int64_t samples = 0;
  double loss = 0, accuracy = 0;              ///< means over the group's samples
  double epoch_loss = 0, epoch_accuracy = 0;  ///< likewise, of the epoch so far
  double learning_rate = 0;                   ///< of the first stage
  double time_s = 0;                          ///< since the run began
  double samples_per_s = 0;                   ///< of training, of late
  double eta_s = 0;                           ///< until the run's end
  std::span<const StageLoad> loads;           ///< by stage; valid during the call
};

/// Where a rank's time went since its last such report.
struct StageTimesEvent {
  int rank = 0, stage = 0;
  std::int64_t update = 0;  ///< from 1: that it has just made
  pipeline::StageTimes times;
  double time_s = 0;  ///< since the run began, as it is heard of
  /// Single steps, where they are recorded, by the rank's own clock; valid during the call.
  std::span<const pipeline::TimedStep> steps;
  std::int64_t steps_dropped = 0;
};

/// The test set was evaluated: an epoch is over.
struct EvaluationEvent {
  EpochResult result;
  std::int64_t update = 0;  ///< updates made
  bool cut_short = false;   ///< the run ends within this epoch
  bool best = false;        ///< the best test accuracy so far; of equal ones the lower loss
  double time_s = 0;        ///< since the run began
};

/// A checkpoint is complete.
struct CheckpointEvent {
  std::int64_t update = 0;  ///< updates made in it
  std::string path;
  std::uint64_t bytes = 0;
  double pause_s = 0;  ///< that training stood still for it, on the rank where it was longest
  double write_s = 0;  ///< from there until it was complete
  bool best = false;   ///< of the best evaluation so far
};

/// All checkpoints of a run.
struct CheckpointTally {
  std::int64_t count = 0;
  CheckpointEvent newest;
  double longest_pause_s = 0, longest_write_s = 0;

  void add(const CheckpointEvent& event) {
    ++count;
    newest = event;
    longest_pause_s = std::max(longest_pause_s, event.pause_s);
    longest_write_s = std::max(longest_write_s, event.write_s);
  }
};

enum class RunStatus { running, completed, failed, stopped };
/// "completed"
std::string name_of(RunStatus status);

/// Where a run's news go, on rank 0: the terminal, the log, files. Sinks are told in the order in
/// which they were added; none may block for long, since training waits for it.
class RunSink {
 public:
  virtual ~RunSink() = default;
  virtual void on_epoch_begin(std::int64_t /*epoch*/) {}  ///< from 1
  virtual void on_group(const GroupEvent& /*event*/) {}
  virtual void on_stage_times(const StageTimesEvent& /*event*/) {}
  virtual void on_evaluation_begin() {}
  virtual void on_evaluation(const EvaluationEvent& /*event*/) {}
  virtual void on_checkpoint(const CheckpointEvent& /*event*/) {}
  /// Something that the user should read though the run goes on.
  virtual void on_notice(const std::string& /*text*/) {}
  /// Training is over; `reason`: why it failed or stopped.
  virtual void on_end(RunStatus /*status*/, const std::string& /*reason*/) {}
};

}  // namespace dynpipe::app
