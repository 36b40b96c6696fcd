#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/run_monitor.hpp"
#include "app/summary_file.hpp"
#include "app/trace_sink.hpp"
#include "app/train_inputs.hpp"
#include "app/train_options.hpp"
#include "app/train_report.hpp"
#include "base/clock.hpp"
#include "comm/clock_offset.hpp"
#include "probe/placement.hpp"

namespace dynpipe::app {

/// Everything that a run writes and shows of itself, on rank 0: the terminal, metrics, trace,
/// summary, and the monitor that tells them.
class RunOutputs {
 public:
  /// What is referred to outlives the object.
  struct Setup {
    const TrainOptions& options;
    const TrainInputs& inputs;
    std::string backend;  ///< name of the maths
    RunExtent extent;
    const base::Clock& clock;
    const base::Clock& report_clock;  ///< that times of the run are read from
    const std::vector<probe::RankPlace>& places;
    const std::vector<comm::ClockOffset>& clock_offsets;  ///< by rank, where there is a trace
  };

  /// Opens all files: what cannot be written at the end is known at the start. Throws InputError.
  explicit RunOutputs(const Setup& setup);

  RunMonitor& monitor() { return monitor_; }
  /// The run is completed: shows its result and closes the files. `comparisons`: of gradients, by
  /// rank, as staleness.hpp packs them. Throws InputError where the summary cannot be written.
  void complete(const TrainResult& result, const std::vector<std::string>& comparisons);

 private:
  void add(std::unique_ptr<RunSink> sink);
  void open_metrics();
  void open_trace();
  void open_summary();
  void open_progress();

  Setup setup_;
  RunMonitor monitor_;
  std::vector<std::unique_ptr<RunSink>> sinks_;
  SummaryFile* summary_ = nullptr;  ///< one of them; null: none is written
  TraceSink* trace_ = nullptr;      ///< likewise
};

}  // namespace dynpipe::app
