#include "base/version.hpp"

namespace dynpipe::base {

std::string_view version() {
  return DYNPIPE_VERSION;
}

}  // namespace dynpipe::base
