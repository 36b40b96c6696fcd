#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "io/trace_rows.hpp"

namespace dynpipe::io {

/// A trace in memory, tables as the file has them.
struct Trace {
  std::string file;
  std::string config, model;  ///< JSON
  std::string clock, status;
  std::int64_t batch = 0;  ///< samples of an update
  std::vector<LayerRow> layers;
  std::vector<RankRow> ranks;
  std::vector<StartRow> starts;
  std::vector<PlanRow> plans;
  std::vector<UpdateRow> updates;
  std::vector<StageStatsRow> stage_stats;
  std::vector<DecisionRow> decisions;
  std::vector<EvaluationRow> evaluations;
  bool has_events = false;
  std::vector<EventRow> events;
  std::optional<double> kappa;
};

/// Throws InputError where a file cannot be read, is no trace or is one of another version.
void check_trace(const std::filesystem::path& path);
/// Throws InputError naming file and object. Events of an unknown kind are refused.
Trace read_trace(const std::filesystem::path& path);
/// The kappa that a trace's run measured. Throws InputError, also where it did not.
double kappa_of_trace(const std::filesystem::path& path);

}  // namespace dynpipe::io
