#pragma once

#include <string>
#include <vector>

#include "comm/world.hpp"

namespace dynpipe::app {

/// `dynpipe doctor`: looks at the ranks and their hosts and says what is fine, what is not and how
/// to mend it. `words` are those after `doctor`. Collective. The exit code: 0, or 1 where something
/// is wrong.
int doctor(const std::vector<std::string>& words, comm::World& world);

}  // namespace dynpipe::app
