#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/background_thread.hpp"
#include "app/checkpoint_options.hpp"
#include "app/run_events.hpp"
#include "base/clock.hpp"
#include "comm/channel.hpp"
#include "device/device.hpp"
#include "io/checkpoint.hpp"
#include "model/model.hpp"
#include "pipeline/worker.hpp"
#include "plan/plan.hpp"

namespace dynpipe::app {

/// How one rank's part of a checkpoint went: what it tells rank 0.
struct ShardReceipt {
  std::array<char, 33> digest{};    ///< of the file
  std::array<char, 384> problem{};  ///< why there is none; empty if there is
  std::uint64_t bytes = 0;
  double pause_s = 0;  ///< that training stood still on this rank
};

/// A run's checkpoints, while it trains.
///
/// Each stage's first replica copies the stage's state right after the update that a checkpoint is
/// of, whatever the other stages are at just then: state is a function of the number of updates.
/// Nothing is drained. A thread writes the copy into the checkpoint's folder, and rank 0 hears of
/// it; when all stages' parts are there, and the losses of all those updates, its thread writes the
/// index and completes the checkpoint, then removes those that need not be kept.
///
/// Training waits where the last copy is still being written, and nowhere else. A checkpoint that
/// cannot be written is told of once, and given up.
class Checkpointing {
 public:
  /// What is referred to outlives the object.
  struct Setup {
    const CheckpointOptions& options;
    const model::Model& model;
    const plan::Plan& plan;
    comm::Channel& channel;
    const base::Clock& clock;
    std::vector<std::string> optimizer_states;  ///< names, see nn::state_names
    std::int64_t groups_per_epoch = 1;
    std::int64_t first_update = 0;  ///< of this run: no checkpoint is of it or those before
    /// On rank 0: what a checkpoint of `update` says of itself, all but `progress` and `layers`.
    std::function<io::CheckpointFacts(std::int64_t update)> facts;
    std::function<void(const CheckpointEvent&)> on_complete;  ///< on rank 0
    std::function<void(const std::string&)> warn;             ///< on rank 0
  };
  Checkpointing(Setup setup, pipeline::Worker& worker, device::Device& device);
  ~Checkpointing();
  Checkpointing(const Checkpointing&) = delete;
  Checkpointing& operator=(const Checkpointing&) = delete;

  /// The worker has made the update of a group.
  void on_update(std::int64_t group);
  /// On rank 0: the losses of all groups up to this one are in `progress` (JSON, made only where it
  /// is wanted).
  void on_group(std::int64_t group, const std::function<std::string()>& progress);
  /// Whether a checkpoint is due after the evaluation that follows `update`.
  bool due_after_evaluation(std::int64_t update) const;
  /// Save the state after `update`, between two segments, unless it was; on all ranks. `progress`:
  /// on rank 0.
  void take(std::int64_t update, bool best, const std::string& progress);
  /// Moves news on; a channel's helper.
  void poll();
  /// Until every checkpoint is complete or given up.
  void finish();
  /// The newest complete one of this run; on rank 0.
  const std::optional<CheckpointEvent>& newest() const { return newest_; }

 private:
  /// A checkpoint that is not complete, on rank 0.
  struct Pending {
    struct Part {
      int stage = 0, rank = 0;
      ShardReceipt receipt;
      comm::Ticket ticket = 0;
      bool here = false;
    };
    std::int64_t update = 0;
    bool best = false;
    double began_s = 0;
    std::optional<std::string> progress;
    std::vector<Part> parts;
  };
  /// What the thread of rank 0 made of a checkpoint.
  struct Completion {
    CheckpointEvent event;
    std::string problem;  ///< empty: it is complete
    std::string remark;   ///< what went wrong afterwards
    std::atomic<bool> done = false;
  };

  bool due_in_segment(std::int64_t update) const;
  bool writes() const { return own_stage_ >= 0; }
  bool leads() const { return setup_.channel.rank() == 0; }
  void save(std::int64_t update);
  void write_copy(std::int64_t update);
  void hand_in();
  Pending& pending(std::int64_t update);
  void look_at(Pending& pending);
  void complete(Pending& pending);
  void note_completion();
  void give_up(std::int64_t update, const std::string& problem);
  bool idle() const;

  Setup setup_;
  pipeline::Worker& worker_;
  int own_stage_ = -1;  ///< that this rank writes; -1: none
  pipeline::WeightSnapshot copy_;
  std::int64_t saved_update_ = -1;  ///< the last one that was begun

  // The part that this rank writes. `written_` hands `receipt_` from the thread to the rank.
  bool writing_ = false;
  std::atomic<bool> written_ = false;
  ShardReceipt receipt_;
  std::optional<comm::Ticket> departure_;

  // On rank 0:
  std::deque<Pending> pending_;
  std::deque<Completion> completions_;
  std::optional<CheckpointEvent> newest_;
  bool failing_ = false;  ///< the last one was given up

  BackgroundThread thread_;  // last: it uses the others
};

}  // namespace dynpipe::app
