#pragma once

#include <string>
#include <vector>

#include "comm/world.hpp"

namespace dynpipe::app {

/// `dynpipe train`: reads, checks, trains, reports. Collective. `words` are those after `train`.
/// What is wrong with the input is an AgreedError on all ranks; what goes wrong later, an Error on
/// one.
void train(const std::vector<std::string>& words, comm::World& world);

}  // namespace dynpipe::app
