#pragma once

#include <string_view>

namespace dynpipe::base {

/// "0.1.0": that of the CMake project.
std::string_view version();

}  // namespace dynpipe::base
