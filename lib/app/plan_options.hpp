#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.hpp"
#include "planner/baselines.hpp"

namespace dynpipe::app {

/// What `dynpipe plan` was asked for.
struct PlanOptions {
  std::string model;
  std::string profile;       ///< file; empty: by FLOPs
  double gflops = 50;        ///< a second, of a rank without a profile
  std::string cluster;       ///< file; empty: equal ranks, links as profiled, or free
  std::optional<int> ranks;  ///< the first ones of the cluster; empty: all
  std::int64_t batch = 64;
  std::vector<int> microbatches;          ///< to choose from; empty: all that are sensible
  std::vector<plan::Schedule> schedules;  ///< to choose from
  std::vector<plan::WeightPolicy> policies;
  double memory_bytes = 0;                     ///< of every rank; 0: as the cluster says
  std::optional<double> kappa;                 ///< empty: assumed
  std::string kappa_from;                      ///< summary of a run that measured it; empty: none
  std::optional<planner::Baseline> algorithm;  ///< empty: dynpipe's own
  std::vector<std::pair<std::string, int>> pins;  ///< layer and its stage
  std::optional<int> stages;
  bool no_replicas = false, reorder = false, recompute = true, compare = false;
  std::string out;  ///< file; empty: none
};

/// Text of `dynpipe plan --help`.
std::string plan_help();

/// Reads the words after `plan`. Empty if --help was asked for. Throws InputError naming the
/// option.
std::optional<PlanOptions> parse_plan_options(const std::vector<std::string>& words);

/// Bytes of a text such as "512MiB" or "1.5GiB". Throws InputError naming the option.
double parse_bytes(const std::string& text, const std::string& option);

}  // namespace dynpipe::app
