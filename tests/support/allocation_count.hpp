#pragma once

#include <cstdint>

namespace dynpipe::testing {

/// How often this thread has called operator new since it first asked, oneDNN's own calls apart: it
/// makes a map of a primitive's arguments whenever one is executed. A program that calls this has
/// its operators new and delete replaced by counting ones.
std::int64_t allocation_count();

}  // namespace dynpipe::testing
