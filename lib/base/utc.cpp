#include "base/utc.hpp"

#include <fmt/chrono.h>

#include <ctime>

namespace dynpipe::base {

std::string utc_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace dynpipe::base
