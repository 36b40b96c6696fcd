#pragma once

#include <string>

#include "app/simulate_options.hpp"
#include "model/model.hpp"
#include "planner/simulator.hpp"

namespace dynpipe::app {

/// Simulates what the options ask for and writes the trace, if they do. Returns what there is to
/// tell: a table for people. Throws InputError for what is wrong with a file.
std::string simulate(const SimulateOptions& options);

/// Shares of each stage's time, over the whole run, and what limits it.
std::string describe_simulation(const model::Model& model, const plan::Plan& plan,
                                const planner::Cluster& cluster, const planner::SimulatedRun& run,
                                std::int64_t batch);

}  // namespace dynpipe::app
