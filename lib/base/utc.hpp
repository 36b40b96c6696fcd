#pragma once

#include <string>

namespace dynpipe::base {

/// "2025-06-30T12:00:00Z": this moment.
std::string utc_now();

}  // namespace dynpipe::base
