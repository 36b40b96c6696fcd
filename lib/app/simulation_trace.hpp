#pragma once

#include <string>

#include "plan/plan.hpp"
#include "planner/simulator.hpp"

namespace dynpipe::app {

/// A simulated run as trace events (JSON object format of Chrome's tracing, which Perfetto reads):
/// a process a rank, with a thread of its steps ("F 17", "B 17") and waits, and as many threads of
/// messages that come to it as are under way at once. Times in microseconds. The run has kept its
/// steps.
std::string trace_events(const plan::Plan& plan, const planner::Cluster& cluster,
                         const planner::SimulatedRun& run);

}  // namespace dynpipe::app
