#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "comm/world.hpp"

namespace dynpipe::app {

/// `dynpipe eval`: evaluates weights of a file over a pipeline of all ranks and reports.
/// Collective. `words` are those after `eval`. Errors as in `train`.
void evaluate(const std::vector<std::string>& words, comm::World& world,
              const std::function<void(const std::exception&)>& on_failure);

}  // namespace dynpipe::app
