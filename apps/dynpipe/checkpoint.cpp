#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "app/checkpoint_report.hpp"
#include "app/option_parser.hpp"
#include "app/weights_exchange.hpp"
#include "base/errors.hpp"
#include "commands.hpp"

namespace dynpipe::cli {
namespace {

using Words = std::vector<std::string>;

constexpr std::string_view k_help =
    "usage: dynpipe checkpoint ls FOLDER\n"
    "       dynpipe checkpoint show PLACE\n"
    "       dynpipe checkpoint verify PLACE\n"
    "       dynpipe checkpoint export SOURCE --safetensors FILE\n"
    "       dynpipe checkpoint import FILE.safetensors --model FILE --out FILE.h5\n\n"
    "  ls      list the checkpoints of a run\n"
    "  show    tell what a checkpoint holds\n"
    "  verify  read checkpoints in full, say what is damaged\n"
    "  export  write weights as PyTorch reads them\n"
    "  import  make a file of weights of PyTorch's\n\n"
    "dynpipe checkpoint COMMAND --help tells a command's options. None needs MPI.\n";

void export_weights(const Words& words) {
  const auto options = app::parse_export_options(words);
  fmt::print("{}", options ? app::export_weights(*options) : app::export_help());
}

void import_weights(const Words& words) {
  const auto options = app::parse_import_weights_options(words);
  fmt::print("{}", options ? app::import_weights(*options) : app::import_weights_help());
}

void verify(const std::string& place) {
  const app::Verification found = app::verify_checkpoints(place);
  fmt::print("{}", found.text);
  if (!found.problem.empty()) throw base::InputError(place, "", found.problem);
}

void report(const std::string& command, const Words& words) {
  const auto options = app::parse_checkpoint_report_options(command, words);
  if (!options) return fmt::print("{}", app::checkpoint_report_help(command));
  if (command == "verify") return verify(options->place);
  fmt::print("{}", command == "ls" ? app::describe_checkpoints(options->place, std::time(nullptr))
                                   : app::describe_checkpoint(*options));
}

}  // namespace

int checkpoint(int argc, char** argv) {
  return run_alone([&] {
    Words words = words_of(argc, argv);
    const std::string wanted = words.empty() ? "" : words.front();
    if (!words.empty()) words.erase(words.begin());
    if (wanted == "--help") return fmt::print("{}", k_help);
    if (wanted == "export") return export_weights(words);
    if (wanted == "import") return import_weights(words);
    const Words known = {"ls", "show", "verify", "export", "import"};
    if (std::find(known.begin(), known.end(), wanted) != known.end()) return report(wanted, words);
    throw base::InputError("", "checkpoint",
                           wanted.empty() ? "a command is missing; see dynpipe checkpoint --help"
                                          : fmt::format("'{}' is not one of its commands{}", wanted,
                                                        app::did_you_mean(wanted, known)));
  });
}

}  // namespace dynpipe::cli
