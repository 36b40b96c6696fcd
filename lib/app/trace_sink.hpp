#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "app/run_events.hpp"
#include "app/staleness.hpp"
#include "io/trace_file.hpp"

namespace dynpipe::app {

/// A run's trace (HDF5; schema: lib/io/README.md). A thread of its own writes to the file, once a
/// second and at every evaluation's end; the training thread only hands rows over. When it is so
/// far behind that a million events wait, those that come are counted and dropped.
class TraceSink final : public RunSink {
 public:
  /// `microbatches`: M. `rank_began_s`: what each rank's clock showed when the run began. `warn` is
  /// told, once and by the thread that tells of the run, when the file can be written no more: then
  /// it stays as it is, and training goes on.
  TraceSink(io::TraceFile file, int microbatches, std::vector<double> rank_began_s,
            std::function<void(const std::string&)> warn);
  ~TraceSink() override;
  TraceSink(const TraceSink&) = delete;
  TraceSink& operator=(const TraceSink&) = delete;

  void on_group(const GroupEvent& event) override;
  void on_stage_times(const StageTimesEvent& event) override;
  void on_evaluation(const EvaluationEvent& event) override;
  /// Returns when all is in the file.
  void on_end(RunStatus status, const std::string& reason) override;
  /// What the run found out about its own delay. To be told before the end.
  void add_kappa(const Staleness& staleness, std::vector<io::GradientRow> samples);

 private:
  /// Rows on their way to the file.
  struct Rows {
    std::vector<io::UpdateRow> updates;
    std::vector<io::StageStatsRow> stage_stats;
    std::vector<io::EvaluationRow> evaluations;
    std::vector<io::EventRow> events;
    std::vector<std::function<void(io::TraceFile&)>> changes;

    void clear();
  };

  /// Adds to the rows that wait.
  template <typename How>
  void hand_over(How&& how);
  void add_steps(const StageTimesEvent& event, io::StageStatsRow& row);
  void write_on();
  void write(const Rows& rows);
  void say_failure();

  const int microbatches_;
  const std::vector<double> rank_began_s_;
  const std::function<void(const std::string&)> warn_;
  const double offset_s_;  ///< of a trace that is gone on with: where its time ended
  const bool events_;

  std::mutex mutex_;
  std::condition_variable news_;
  Rows waiting_;
  bool hurry_ = false, over_ = false, failed_ = false, said_ = false;
  std::string failure_;

  io::TraceFile file_;  ///< the thread's alone
  Rows writing_;        ///< likewise
  std::thread thread_;
};

/// The samples of a run's comparisons, packed by rank, as rows; `stages` by rank.
std::vector<io::GradientRow> gradient_rows(const std::vector<std::string>& packed,
                                           const std::vector<int>& stages);

}  // namespace dynpipe::app
