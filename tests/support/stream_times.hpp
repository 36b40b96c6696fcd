#pragma once

#include <vector>

#include "schedule/schedule.hpp"

namespace dynpipe::testing {

/// What the steps of a microbatch take on every stage, in any unit of time. Messages, sums and
/// updates take nothing.
struct StepCosts {
  double forward = 1, backward_input = 1, backward_weight = 1;

  double microbatch() const { return forward + backward_input + backward_weight; }
};

/// How long the streams of all ranks take together, each step starting as soon as its rank and what
/// it waits for are ready. The streams have passed the checker; throws std::logic_error where they
/// block.
double duration(const plan::Plan& plan, const std::vector<schedule::Stream>& streams,
                const StepCosts& costs);

/// `stages` of one rank and one layer each, with the least warm-up.
plan::Plan straight_plan(plan::Schedule schedule, int stages, int microbatches);

/// Time that every rank waits in an update group, by theory (S equal stages, at least as many
/// microbatches): (S - 1) (F + B + W) under gpipe and 1f1b (Narayanan et al. 2021), (S - 1) (F + B
/// - W) under zb-h1 (Qi et al. 2023).
double bubble_in_theory(plan::Schedule schedule, int stages, const StepCosts& costs);

}  // namespace dynpipe::testing
