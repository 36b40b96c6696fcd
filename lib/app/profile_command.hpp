#pragma once

#include <string>
#include <vector>

#include "comm/world.hpp"

namespace dynpipe::app {

/// `dynpipe profile`: measures a model's layers on all ranks at once, and their links; prints a
/// table and writes a file. `words` are those after `profile`. Collective.
void profile(const std::vector<std::string>& words, comm::World& world);

}  // namespace dynpipe::app
