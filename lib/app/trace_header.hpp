#pragma once

#include <string>
#include <vector>

#include "app/train_inputs.hpp"
#include "app/train_options.hpp"
#include "comm/clock_offset.hpp"
#include "io/trace_file.hpp"
#include "probe/placement.hpp"

namespace dynpipe::app {

/// What a trace says of its run once. `offsets`: of each rank's clock.
io::TraceHeader trace_header(const TrainOptions& options, const TrainInputs& inputs,
                             const std::string& backend,
                             const std::vector<probe::RankPlace>& places,
                             const std::vector<comm::ClockOffset>& offsets);

/// Each rank's clock compared with that of rank 0, on rank 0; ranks of one host share a clock.
/// Collective.
std::vector<comm::ClockOffset> share_clock_offsets(comm::Channel& channel, comm::World& world,
                                                   const base::Clock& clock,
                                                   const std::vector<probe::RankPlace>& places);

}  // namespace dynpipe::app
