#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "model/profile.hpp"
#include "plan/plan.hpp"
#include "planner/baselines.hpp"
#include "planner/cluster.hpp"

namespace dynpipe::planner {

/// What a plan is searched for.
struct SearchRequest {
  std::int64_t batch = 1;               ///< samples of an update
  int ranks = 0;                        ///< of the cluster the first; 0: all
  std::vector<int> microbatches = {8};  ///< M to choose from
  std::vector<plan::Schedule> schedules = {plan::Schedule::asynchronous};
  std::vector<plan::WeightPolicy> policies = {plan::WeightPolicy::double_buffer};
  /// Of period (1 + kappa tau').
  double kappa = 0;
  /// Of every rank; the cluster's own limits hold as well.
  double memory_bytes = std::numeric_limits<double>::infinity();
  /// By layer: the stage that it has to be in, or -1; empty where all are free.
  std::vector<int> pins;
  int stages = 0;         ///< how many; 0: any number
  bool replicas = true;   ///< stages may have several ranks
  bool recompute = true;  ///< stages may, where they do not fit the memory otherwise
  bool reorder = false;   ///< ranks may also be taken in the order of their speed
  // Ablations: what the search is to know nothing of. What it finds is judged with all of it.
  bool staleness = true, communication = true, spare_warmup = true;
  /// How often the time that a search takes while training waits for it (milliseconds for tens of
  /// layers) it may take: more simulations.
  int effort = 1;
  /// Whether the plans of all baselines are among those it chooses from.
  bool baselines = true;
  std::vector<double> layer_flops;  ///< of the baseline that cuts by them; may be empty
};

/// Why a stage takes its time, a microbatch, in seconds.
struct StageReport {
  double compute_s = 0;     ///< of its busiest rank, updates among it
  double transfer_s = 0;    ///< one way to the next stage; 0 of the last
  double exposed_s = 0;     ///< by which transfers to and from the next lengthen the period
  double reduction_s = 0;   ///< of an update: the sum over its replicas
  double memory_bytes = 0;  ///< of its fullest rank
  int delay = 0;
};

inline int ranks_of(const Cluster& cluster, const SearchRequest& request) {
  return request.ranks > 0 ? request.ranks : cluster.size();
}

struct PlanChoice {
  plan::Plan plan;
  double period_s = 0;     ///< of an update
  bool simulated = false;  ///< else by formula: too large to simulate
  double delay = 0;        ///< tau'
  double objective = 0;    ///< period (1 + kappa tau')
  /// No plan takes less: max(work of all layers / speed of all ranks, largest layer on the fastest
  /// rank, shared among as many as there are microbatches where replicas are allowed), of an
  /// update.
  double bound_s = 0;
  std::vector<StageReport> stages;
  std::string limit;                 ///< what keeps it from the bound, in a line
  std::optional<Baseline> baseline;  ///< whose plan it is, where none better was found
};

/// The best plan for all ranks of a cluster. Few layers and ranks: all cuts are compared; many:
/// dynamic programming and small steps from its results. The cycle formula ranks, the simulator
/// picks among the first (where one run takes no longer than the search may) and sets W.
/// Deterministic. Never worse than a baseline that fits.
///
/// Throws InputError: more ranks than layers without replicas, more stages than ranks or layers,
/// pins that no cut keeps, a batch smaller than M, a memory limit that nothing fits (naming the
/// least that something does).
PlanChoice search(const model::Profile& profile, const Cluster& cluster,
                  const SearchRequest& request);

/// Of fewer ranks, the first of the cluster, whether some would have a lower objective than
/// `choice`: their number and by what part, by formula. Empty where the count is right.
struct FewerRanks {
  int ranks;
  double gain;
};
std::optional<FewerRanks> better_with_fewer(const PlanChoice& choice, const model::Profile& profile,
                                            const Cluster& cluster, const SearchRequest& request);

/// The same account of a plan that is given, such as a baseline's.
PlanChoice judged(const plan::Plan& plan, const model::Profile& profile, const Cluster& cluster,
                  const SearchRequest& request);

}  // namespace dynpipe::planner
