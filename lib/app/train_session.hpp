#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "comm/world.hpp"

namespace dynpipe::app {

/// `dynpipe train`: reads, checks, trains, reports. Collective. `words` are those after `train`.
/// What is wrong with the input is an AgreedError on all ranks, and so is the end by a signal after
/// a checkpoint (ExitCode::requeue). What goes wrong on this rank alone
/// later is given to `on_failure` while messages are still in flight: it must end the job, since
/// memory that they use would be freed next.
void train(const std::vector<std::string>& words, comm::World& world,
           const std::function<void(const std::exception&)>& on_failure);

}  // namespace dynpipe::app
