#pragma once

#include <span>
#include <vector>

#include "schedule/schedule.hpp"

namespace dynpipe::schedule {

/// What the steps of a microbatch take on a stage, in any unit of time. Messages, sums and updates
/// take nothing.
struct StepCosts {
  double forward = 1, backward_input = 1, backward_weight = 1;

  double microbatch() const { return forward + backward_input + backward_weight; }
};

/// How long a rank computed, and when it was through with its stream.
struct RankTimes {
  double busy = 0, end = 0;
};

/// Runs the streams of all ranks, each step starting as soon as its rank and what it waits for are
/// ready. `costs` are by stage. The streams have passed the checker; throws std::logic_error where
/// they block.
std::vector<RankTimes> run_times(const plan::Plan& plan, const std::vector<Stream>& streams,
                                 std::span<const StepCosts> costs);

/// The share of its time in which each rank waits for others, by rank, once the pipeline is full:
/// what flushes cost in synchronous schedules, and what stages that take longer cost in all.
std::vector<double> waiting_shares(const plan::Plan& plan, std::span<const StepCosts> costs);

}  // namespace dynpipe::schedule
