#pragma once

#include <string>
#include <vector>

#include "app/option_parser.hpp"
#include "comm/world.hpp"

namespace dynpipe::app {

/// Collective: all ranks were started with the same options, as far as they must be; `own` are this
/// rank's. Throws on all ranks an AgreedError that names the first option that differs (in
/// alphabetical order), two ranks and their values.
void require_same_options(const OptionTexts& own, comm::World& world);

}  // namespace dynpipe::app
