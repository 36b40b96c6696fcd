#include <fmt/format.h>

#include "app/plan_command.hpp"
#include "commands.hpp"

namespace dynpipe::cli {

int plan(int argc, char** argv) {
  return run_alone([&] {
    if (const auto options = app::parse_plan_options(words_of(argc, argv))) {
      fmt::print("{}", app::make_and_describe_plan(*options));
    } else {
      fmt::print("{}", app::plan_help());
    }
  });
}

}  // namespace dynpipe::cli
