#pragma once

#include <span>

#include "planner/simulator.hpp"
#include "schedule/timing.hpp"

namespace dynpipe::testing {

/// A workload whose steps take `costs` seconds, by stage, on every rank, and whose messages between
/// stages, and gradients of a stage, have so many bytes.
planner::Workload workload_for(const plan::Plan& plan, std::span<const schedule::StepCosts> costs,
                               std::int64_t message_bytes = 0, std::int64_t gradient_bytes = 0);

/// Ranks of a cluster where messages take nothing.
planner::Cluster free_cluster(int ranks);

}  // namespace dynpipe::testing
