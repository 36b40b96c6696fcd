#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "app/train_options.hpp"
#include "base/clock.hpp"
#include "pipeline/metrics_link.hpp"

namespace dynpipe::app {

/// Rank 0's running account of training: one live line on a terminal, else one dense line every so
/// many updates. Called whenever the loss of a group arrives; the live line changes
/// ten times a second at most.
class Progress {
 public:
  struct Extent {
    std::int64_t epochs, groups_per_epoch, total_updates;
  };
  Progress(ProgressStyle style, std::int64_t log_every, Extent extent, const base::Clock& clock,
           std::FILE* out);

  void begin_epoch(std::int64_t epoch);
  /// `samples`: of this group.
  void on_group(const pipeline::GroupMetrics& metrics, std::int64_t samples);
  /// A finished epoch's line: losses, and accuracies in brackets; `test_*` over the whole test set.
  void end_epoch(std::int64_t epoch, double test_loss, double test_accuracy);

  /// Ends a live line, so that what is said next begins on one of its own.
  void close_line();

  double mean_loss() const {
    return samples_ > 0 ? loss_sum_ / samples_ : 0;
  }  ///< of the epoch so far
  double accuracy() const { return samples_ > 0 ? correct_ / samples_ : 0; }
  double samples() const { return samples_; }
  double train_seconds() const { return train_s_; }  ///< of the epoch, without its evaluation

 private:
  std::string line(std::int64_t updates_done) const;
  void show_live(std::int64_t updates_done);

  std::string terminal_;  ///< device that output ends at; empty: none
  bool live_;
  bool line_is_open_ = false;
  std::int64_t log_every_;
  Extent extent_;
  const base::Clock& clock_;
  std::FILE* out_;
  double run_began_s_, epoch_began_s_ = 0, shown_s_ = 0, train_s_ = 0;
  std::int64_t epoch_ = 0;
  double loss_sum_ = 0, correct_ = 0, samples_ = 0;  ///< of the epoch so far
};

}  // namespace dynpipe::app
