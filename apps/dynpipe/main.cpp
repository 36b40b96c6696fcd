#include <fmt/format.h>

#include <string_view>

#include "app/option_parser.hpp"
#include "base/errors.hpp"
#include "base/version.hpp"
#include "commands.hpp"

namespace {

using namespace dynpipe;

void print_help() {
  fmt::print("usage: [mpirun -n RANKS] dynpipe COMMAND [options]\n\ncommands:\n");
  for (const cli::Command& command : cli::commands()) {
    fmt::print("  {:<10}  {}\n", command.name, command.summary);
  }
  fmt::print("\ndynpipe COMMAND --help tells a command's options.\n");
}

std::string unknown(std::string_view wanted) {
  std::vector<std::string> names;
  for (const cli::Command& command : cli::commands()) names.emplace_back(command.name);
  return fmt::format("'{}' is not a command{}; see dynpipe --help", wanted,
                     app::did_you_mean(wanted, names));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  for (const cli::Command& command : cli::commands()) {
    if (command.name == wanted) return command.run(argc, argv);
  }
  if (wanted == "--help" || wanted == "help") {
    print_help();
    return 0;
  }
  if (wanted == "--version") {
    fmt::print("dynpipe {}\n", base::version());
    return 0;
  }
  cli::complain(wanted.empty() ? "a command is missing; see dynpipe --help" : unknown(wanted));
  return static_cast<int>(base::ExitCode::bad_input);
}
