#include "support/stream_times.hpp"

#include <algorithm>

namespace dynpipe::testing {

double duration(const plan::Plan& plan, const std::vector<schedule::Stream>& streams,
                const StepCosts& costs) {
  const std::vector<StepCosts> of_stages(plan.stages.size(), costs);
  double end = 0;
  for (const auto& rank : schedule::run_times(plan, streams, of_stages)) {
    end = std::max(end, rank.end);
  }
  return end;
}

plan::Plan straight_plan(plan::Schedule schedule, int stages, int microbatches) {
  plan::Plan plan;
  plan.schedule = schedule;
  plan.microbatches = microbatches;
  for (int s = 0; s < stages; ++s) {
    plan.stages.push_back(
        {s, s, {s}, std::vector<int>(static_cast<std::size_t>(microbatches), 0), stages - 1 - s});
  }
  return plan;
}

double bubble_in_theory(plan::Schedule schedule, int stages, const StepCosts& costs) {
  const double weight =
      schedule == plan::Schedule::zb_h1 ? -costs.backward_weight : costs.backward_weight;
  return (stages - 1) * (costs.forward + costs.backward_input + weight);
}

}  // namespace dynpipe::testing
