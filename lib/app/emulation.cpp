#include "app/emulation.hpp"

#include <fmt/format.h>

#include "planner/workload.hpp"

namespace dynpipe::app {

Emulation::Emulation(const TrainOptions& options, const TrainInputs& inputs,
                     const base::Clock& real_clock, comm::Channel& channel, comm::World& world)
    : mode_(options.emulation_mode),
      real_clock_(real_clock),
      work_(planner::workload_of(*inputs.profile, inputs.plan, options.batch)),
      run_(inputs.plan, world.rank(), work_, *inputs.cluster, options.seed) {
  if (is_virtual()) {
    steps_ = std::make_unique<emulate::VirtualSteps>(run_, worker_clock_);
  } else {
    steps_ = std::make_unique<emulate::PacedSteps>(run_, real_clock, channel, world);
  }
}

const base::Clock& Emulation::worker_clock() const {
  return is_virtual() ? static_cast<const base::Clock&>(worker_clock_) : real_clock_;
}

const base::Clock& Emulation::report_clock() const {
  return is_virtual() ? static_cast<const base::Clock&>(report_clock_) : real_clock_;
}

void Emulation::note_group(std::int64_t group) {
  report_clock_.move_to(run_.update_s(group));
}

void Emulation::note_end() {
  report_clock_.move_to(run_.end_s());
}

std::string describe_emulation(const TrainOptions& options, const TrainInputs& inputs) {
  if (!inputs.cluster) return "";
  const planner::Cluster& cluster = *inputs.cluster;
  return fmt::format("emulated  {}: {} ranks, steps as in the profile of {}; {}\n", cluster.name,
                     cluster.size(), inputs.profile->device,
                     options.emulation_mode == EmulationMode::virtual_time
                         ? "every time below is in virtual seconds"
                         : "ranks are held back to its times");
}

}  // namespace dynpipe::app
