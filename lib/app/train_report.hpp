#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "app/run_events.hpp"
#include "app/run_monitor.hpp"
#include "app/staleness.hpp"
#include "app/train_inputs.hpp"
#include "app/train_options.hpp"
#include "pipeline/worker.hpp"

namespace dynpipe::app {

/// What each rank tells of itself at the end.
struct RankResult {
  int rank = 0, stage = 0;
  std::string host;
  pipeline::StageTimes times;
  std::int64_t peak_rss_bytes = 0;
  int threads = 1;
};

/// Everything that a run has to tell, so far.
struct TrainResult {
  RunStatus status = RunStatus::running;
  std::string reason;  ///< why it failed or stopped
  std::vector<EpochResult> epochs;
  std::vector<RankResult> ranks;  ///< of a completed run
  UpdateTimes updates;
  double samples_per_s = 0;  ///< over all training time
  Staleness staleness = {};  ///< of a completed run with --measure-kappa
  CheckpointTally checkpoints = {};
};

/// Model and plan as training starts: a table for people.
std::string describe_start(const TrainOptions& options, const TrainInputs& inputs,
                           const std::string& backend);
/// What is odd about a plan that runs all the same; a line each.
std::vector<std::string> plan_warnings(const TrainOptions& options, const TrainInputs& inputs);
/// Accuracy, throughput, and where each rank's time went: a table for people.
std::string describe_result(const TrainResult& result, const plan::Plan& plan, bool virtual_time);
/// The options of a run (JSON), as the summary and checkpoints keep them.
nlohmann::ordered_json config_json(const TrainOptions& options, const plan::Plan& plan,
                                   const std::string& backend);
/// The summary file (JSON).
std::string summary_json(const TrainOptions& options, const TrainInputs& inputs,
                         const TrainResult& result, const std::string& backend);

/// A rank's result as text and back, for the way to rank 0.
std::string pack(const RankResult& result);
RankResult unpack_rank_result(const std::string& text);

}  // namespace dynpipe::app
