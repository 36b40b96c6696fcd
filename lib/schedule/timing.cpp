#include "schedule/timing.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>

namespace dynpipe::schedule {
namespace {

using plan::Plan;

/// When what one rank leaves for others is there.
struct Arrivals {
  std::map<std::tuple<int, Payload, std::int64_t>, double> messages;  ///< by receiver
  std::map<std::pair<int, std::int64_t>, std::vector<double>> sums;   ///< by (stage, group)
};

struct RankClock {
  std::size_t position = 0;
  double now = 0, busy = 0;

  void work(double cost) {
    now += cost;
    busy += cost;
  }
};

class Simulation {
 public:
  Simulation(const Plan& plan, std::span<const StepCosts> costs) : plan_(plan), costs_(costs) {}

  /// False where the step waits for something that is not there yet.
  bool step(int rank, const Instruction& now, RankClock& clock) {
    const int s = plan_.stage_of(rank);
    const StepCosts& costs = costs_[static_cast<std::size_t>(s)];
    switch (now.op) {
      case Op::receive:
        return true;
      case Op::send:
        arrivals_.messages[{now.peer, now.payload, now.index}] = clock.now;
        return true;
      case Op::forward:
      case Op::forward_lean:
        return work(rank, s > 0, Payload::activation, now.index, costs.forward, clock);
      case Op::backward:
        return work(rank, s + 1 < plan_.size(), Payload::gradient, now.index,
                    costs.backward_input + costs.backward_weight, clock);
      case Op::backward_input:
        return work(rank, s + 1 < plan_.size(), Payload::gradient, now.index, costs.backward_input,
                    clock);
      case Op::recompute:
        clock.work(costs.forward);
        return true;
      case Op::backward_weight:
        clock.work(costs.backward_weight);
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
    clock.work(cost);
    return true;
  }

  bool await_sum(int s, std::int64_t group, RankClock& clock) {
    const std::vector<double>& started = arrivals_.sums[{s, group}];
    const int replicas = plan_.stages[static_cast<std::size_t>(s)].replicas();
    if (static_cast<int>(started.size()) < replicas) return false;
    clock.now = std::max(clock.now, *std::max_element(started.begin(), started.end()));
    return true;
  }

  const Plan& plan_;
  std::span<const StepCosts> costs_;
  Arrivals arrivals_;
};

/// When the last rank is through, and how long each has computed, `groups` groups from the start.
std::pair<double, std::vector<double>> after(const Plan& plan, std::int64_t groups,
                                             std::span<const StepCosts> costs) {
  double end = 0;
  std::vector<double> busy;
  for (const RankTimes& rank : run_times(plan, training_streams(plan, {0, groups}), costs)) {
    end = std::max(end, rank.end);
    busy.push_back(rank.busy);
  }
  return {end, busy};
}

}  // namespace

std::vector<RankTimes> run_times(const Plan& plan, const std::vector<Stream>& streams,
                                 std::span<const StepCosts> costs) {
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
  std::vector<RankTimes> times;
  for (std::size_t rank = 0; rank < streams.size(); ++rank) {
    const RankClock& clock = clocks[rank];
    if (clock.position < streams[rank].size()) {
      throw std::logic_error("the streams block: " + to_string(streams[rank][clock.position]));
    }
    times.push_back({clock.busy, clock.now});
  }
  return times;
}

std::vector<double> waiting_shares(const Plan& plan, std::span<const StepCosts> costs) {
  // From one moment of full running to a later one: filling and emptying cancel out.
  const std::int64_t filled = steady_segment(plan).end_group;
  const auto [first_end, first_busy] = after(plan, filled, costs);
  const auto [second_end, second_busy] = after(plan, 2 * filled, costs);
  std::vector<double> shares;
  for (std::size_t rank = 0; rank < first_busy.size(); ++rank) {
    const double passed = second_end - first_end;
    shares.push_back(passed > 0 ? 1 - (second_busy[rank] - first_busy[rank]) / passed : 0);
  }
  return shares;
}

}  // namespace dynpipe::schedule
