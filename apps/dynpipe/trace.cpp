#include <fmt/format.h>

#include "app/trace_command.hpp"
#include "commands.hpp"

namespace dynpipe::cli {

int trace(int argc, char** argv) {
  return run_alone([&] { fmt::print("{}", app::trace_command(words_of(argc, argv))); });
}

}  // namespace dynpipe::cli
