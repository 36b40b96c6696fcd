#include "app/simulate.hpp"

#include <fmt/format.h>

#include "commands.hpp"

namespace dynpipe::cli {

int simulate(int argc, char** argv) {
  return run_alone([&] {
    if (const auto options = app::parse_simulate_options(words_of(argc, argv))) {
      fmt::print("{}", app::simulate(*options));
    } else {
      fmt::print("{}", app::simulate_help());
    }
  });
}

}  // namespace dynpipe::cli
