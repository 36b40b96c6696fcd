#include "support/simulated.hpp"

#include <limits>

namespace dynpipe::testing {

planner::Workload workload_for(const plan::Plan& plan, std::span<const schedule::StepCosts> costs,
                               std::int64_t message_bytes, std::int64_t gradient_bytes) {
  planner::Workload workload;
  workload.ranks.resize(static_cast<std::size_t>(plan.ranks()));
  for (int s = 0; s < plan.size(); ++s) {
    const schedule::StepCosts& of = costs[static_cast<std::size_t>(s)];
    const std::int64_t bytes = s + 1 < plan.size() ? message_bytes : 0;
    const planner::MicrobatchWork work{of.forward, of.backward_input, of.backward_weight, bytes};
    for (int rank : plan.stages[static_cast<std::size_t>(s)].ranks) {
      workload.ranks[static_cast<std::size_t>(rank)] = {work, work, 0, gradient_bytes};
    }
  }
  return workload;
}

planner::Cluster free_cluster(int ranks) {
  return planner::uniform_cluster(ranks, 0, std::numeric_limits<double>::infinity());
}

}  // namespace dynpipe::testing
