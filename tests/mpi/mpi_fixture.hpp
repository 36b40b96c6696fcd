#pragma once

#include <memory>

#include "comm/mpi/mpi.hpp"
#include "device/cpu/cpu_device.hpp"
#include "support/scenario.hpp"

namespace dynpipe::testing {

/// The world of the test program, set by main.
comm::World*& mpi_world();

/// This rank's part of a scenario on the first ranks of the world, as many as its plan uses;
/// nothing on the others. Collective.
inline std::optional<RankOutcome> run_on_mpi(const Scenario& scenario) {
  const base::SteadyClock clock;
  const auto part = mpi_world()->first(scenario.plan.ranks());
  if (!part) return std::nullopt;
  const auto channel =
      comm::make_mpi_channel(*part, clock, {.deadline_s = 60, .spin_s = 0, .nap_s = 20e-6});
  device::CpuDevice device;
  RankOutcome outcome = run_rank(scenario, *channel, device);
  outcome.evaluations = part->sum(outcome.evaluations);
  return outcome;
}

}  // namespace dynpipe::testing
