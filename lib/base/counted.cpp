#include "base/counted.hpp"

#include <fmt/format.h>

namespace dynpipe::base {

std::string counted(std::int64_t number, std::string_view noun) {
  const bool hisses = noun.ends_with("ch") || noun.ends_with("s");
  const char* ending = number == 1 ? "" : hisses ? "es" : "s";
  return fmt::format("{} {}{}", number, noun, ending);
}

}  // namespace dynpipe::base
