#pragma once

#include <cstdint>

#include "planner/search.hpp"

namespace dynpipe::testing {

/// Layers of random times within a factor of ten, messages, weights and updates.
model::Profile random_profile(int layers, std::uint64_t seed);
/// Equal layers: times for one sample, in seconds.
model::Profile equal_profile(int layers, model::LayerTimes times, std::int64_t output_bytes,
                             std::int64_t parameter_bytes);

/// Ranks of random slowdowns between 1 and 3, links to a switch of random latencies and rates: fast
/// to so slow that messages take longer than a layer.
planner::Cluster random_cluster(int ranks, std::uint64_t seed);

/// The best of all plans there are for ranks in their order, in the simulator's terms: every cut,
/// every number of replicas, warm-ups from the least on with up to `spare` more a stage.
struct Optimum {
  double objective = 0;
  plan::Plan plan;
};
Optimum brute_force(const model::Profile& profile, const planner::Cluster& cluster,
                    const planner::SearchRequest& request, int spare);

}  // namespace dynpipe::testing
