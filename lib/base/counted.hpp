#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dynpipe::base {

/// "1 rank", "3 ranks", "2 microbatches"
std::string counted(std::int64_t number, std::string_view noun);

}  // namespace dynpipe::base
