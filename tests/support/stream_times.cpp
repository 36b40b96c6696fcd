#include "support/stream_times.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>

namespace dynpipe::testing {
namespace {

using schedule::Instruction;
using schedule::Op;
using schedule::Payload;

/// When what one rank leaves for others is there.
struct Arrivals {
  std::map<std::tuple<int, Payload, std::int64_t>, double> messages;  ///< by receiver
  std::map<std::pair<int, std::int64_t>, std::vector<double>> sums;   ///< by (stage, group)
};

struct RankClock {
  std::size_t position = 0;
  double now = 0;
};

class Simulation {
 public:
  Simulation(const plan::Plan& plan, const StepCosts& costs) : plan_(plan), costs_(costs) {}

  /// False where the step waits for something that is not there yet.
  bool step(int rank, const Instruction& now, RankClock& clock) {
    const int s = plan_.stage_of(rank);
    switch (now.op) {
      case Op::receive:
        return true;
      case Op::send:
        arrivals_.messages[{now.peer, now.payload, now.index}] = clock.now;
        return true;
      case Op::forward:
      case Op::forward_lean:
        return work(rank, s > 0, Payload::activation, now.index, costs_.forward, clock);
      case Op::backward:
        return work(rank, s + 1 < plan_.size(), Payload::gradient, now.index,
                    costs_.backward_input + costs_.backward_weight, clock);
      case Op::backward_input:
        return work(rank, s + 1 < plan_.size(), Payload::gradient, now.index, costs_.backward_input,
                    clock);
      case Op::recompute:
        clock.now += costs_.forward;
        return true;
      case Op::backward_weight:
        clock.now += costs_.backward_weight;
        return true;
      case Op::reduce_start:
        arrivals_.sums[{s, now.index}].push_back(clock.now);
        return true;
      case Op::update_wait:
        return await_sum(s, now.index, clock);
      case Op::update:
        return true;
    }
    return false;
  }

 private:
  bool work(int rank, bool waits, Payload payload, std::int64_t microbatch, double cost,
            RankClock& clock) {
    if (waits) {
      const auto found = arrivals_.messages.find({rank, payload, microbatch});
      if (found == arrivals_.messages.end()) return false;
      clock.now = std::max(clock.now, found->second);
    }
    clock.now += cost;
    return true;
  }

  bool await_sum(int s, std::int64_t group, RankClock& clock) {
    const std::vector<double>& started = arrivals_.sums[{s, group}];
    const int replicas = plan_.stages[static_cast<std::size_t>(s)].replicas();
    if (static_cast<int>(started.size()) < replicas) return false;
    clock.now = std::max(clock.now, *std::max_element(started.begin(), started.end()));
    return true;
  }

  const plan::Plan& plan_;
  StepCosts costs_;
  Arrivals arrivals_;
};

}  // namespace

double duration(const plan::Plan& plan, const std::vector<schedule::Stream>& streams,
                const StepCosts& costs) {
  Simulation simulation(plan, costs);
  std::vector<RankClock> clocks(streams.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t rank = 0; rank < streams.size(); ++rank) {
      RankClock& clock = clocks[rank];
      while (clock.position < streams[rank].size() &&
             simulation.step(static_cast<int>(rank), streams[rank][clock.position], clock)) {
        ++clock.position;
        moved = true;
      }
    }
  }
  double end = 0;
  for (std::size_t rank = 0; rank < streams.size(); ++rank) {
    if (clocks[rank].position < streams[rank].size()) {
      throw std::logic_error("the streams block: " +
                             to_string(streams[rank][clocks[rank].position]));
    }
    end = std::max(end, clocks[rank].now);
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
