#pragma once

#include <vector>

#include "schedule/timing.hpp"

namespace dynpipe::testing {

using schedule::StepCosts;

/// How long the streams of all ranks take together where every stage takes as long.
double duration(const plan::Plan& plan, const std::vector<schedule::Stream>& streams,
                const StepCosts& costs);

/// `stages` of one rank and one layer each, with the least warm-up.
plan::Plan straight_plan(plan::Schedule schedule, int stages, int microbatches);

/// Time that every rank waits in an update group, by theory (S equal stages, at least as many
/// microbatches): (S - 1) (F + B + W) under gpipe and 1f1b (Narayanan et al. 2021), (S - 1) (F + B
/// - W) under zb-h1 (Qi et al. 2023).
double bubble_in_theory(plan::Schedule schedule, int stages, const StepCosts& costs);

}  // namespace dynpipe::testing
