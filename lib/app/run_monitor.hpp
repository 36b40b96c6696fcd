#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/recent_ratio.hpp"
#include "app/run_events.hpp"
#include "app/run_progress.hpp"
#include "base/clock.hpp"
#include "pipeline/metrics_link.hpp"
#include "pipeline/times_link.hpp"
#include "plan/plan.hpp"

namespace dynpipe::app {

struct UpdateTimes {
  double median_s = 0, p90_s = 0;
  std::int64_t count = 0;
};

/// Rank 0's account of a run: makes events of what the pipeline tells, and hands them to sinks.
/// Epochs and groups that it is told are counted from 0, those of events from 1.
class RunMonitor {
 public:
  /// `plan` and `clock` outlive the monitor.
  RunMonitor(RunExtent extent, const plan::Plan& plan, const base::Clock& clock);

  /// Sinks outlive the monitor.
  void add(RunSink& sink) { sinks_.push_back(&sink); }

  /// Goes on from what a run had to tell after `updates` updates.
  void resume(const RunProgress& progress, std::int64_t updates);
  /// Of all updates that `on_group` was told of.
  RunProgress progress() const { return {epochs_, totals_}; }
  /// By the clock.
  double began_s() const { return run_began_s_; }

  /// The epoch that is resumed keeps its sums.
  void begin_epoch(std::int64_t epoch);
  void on_group(const pipeline::GroupMetrics& metrics, std::int64_t samples, double learning_rate);
  void on_times(const pipeline::TimesReport& report);
  void begin_evaluation();
  /// `loss` and `accuracy` over the whole test set.
  void end_epoch(double loss, double accuracy);
  void checkpoint(const CheckpointEvent& event);
  void notice(const std::string& text);
  void end(RunStatus status, const std::string& reason = "");

  /// Of all updates so far: time from one update's news to the next, evaluations left out.
  UpdateTimes update_times() const;
  const CheckpointTally& checkpoints() const { return checkpoints_; }
  /// Whether the epoch that was evaluated last is the best so far.
  bool last_is_best() const { return last_is_best_; }
  const std::vector<EpochResult>& epochs() const { return epochs_; }
  /// Over all training time of whole epochs.
  double samples_per_s() const;

 private:
  struct RecentLoad {
    RecentRatio busy, waiting;
  };

  template <typename Tell>
  void tell(Tell&& one) {
    for (RunSink* sink : sinks_) one(*sink);
  }
  double eta_s() const;
  const std::vector<StageLoad>& loads();

  RunExtent extent_;
  const plan::Plan& plan_;
  const base::Clock& clock_;
  std::vector<RunSink*> sinks_;

  double run_began_s_, epoch_began_s_ = 0, last_news_s_ = 0;
  double evaluation_s_ = 0;  ///< that the last one took
  std::int64_t epoch_ = 0, updates_ = 0;
  EpochTotals totals_;
  RecentRatio samples_rate_, update_rate_;
  std::vector<RecentLoad> rank_loads_;  ///< by rank
  std::vector<StageLoad> stage_loads_;  ///< by stage
  std::vector<double> intervals_s_;     ///< from update to update
  std::vector<EpochResult> epochs_;
  bool last_is_best_ = false;
  CheckpointTally checkpoints_;
};

}  // namespace dynpipe::app
