#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "app/train_inputs.hpp"
#include "app/train_options.hpp"
#include "comm/channel.hpp"
#include "comm/world.hpp"
#include "emulate/emulated_steps.hpp"

namespace dynpipe::app {

/// What makes a run one on a described cluster (`--emulate`): its clocks, and what holds its ranks
/// to them.
class Emulation {
 public:
  /// `inputs` have a cluster and a profile. What is referred to outlives this.
  Emulation(const TrainOptions& options, const TrainInputs& inputs, const base::Clock& real_clock,
            comm::Channel& channel, comm::World& world);

  bool is_virtual() const { return mode_ == EmulationMode::virtual_time; }
  /// What the worker reads, and whoever reports the run.
  const base::Clock& worker_clock() const;
  const base::Clock& report_clock() const;
  pipeline::StepObserver& observer() { return *steps_; }

  /// An update group's news have come: the report's clock moves to when the update was made,
  /// however late its news are.
  void note_group(std::int64_t group);
  /// A segment is over, for all ranks.
  void note_end();

 private:
  EmulationMode mode_;
  const base::Clock& real_clock_;
  planner::Workload work_;
  emulate::DescribedRun run_;
  emulate::VirtualClock worker_clock_, report_clock_;
  std::unique_ptr<pipeline::StepObserver> steps_;
};

/// "emulated  8x-25gbe: 8 ranks, virtual time; every time below is in virtual seconds": a line for
/// people.
std::string describe_emulation(const TrainOptions& options, const TrainInputs& inputs);

}  // namespace dynpipe::app
