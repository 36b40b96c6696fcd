#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "app/option_parser.hpp"
#include "app/weights_exchange.hpp"
#include "base/errors.hpp"
#include "commands.hpp"

namespace dynpipe::cli {
namespace {

constexpr std::string_view k_help =
    "usage: dynpipe checkpoint export SOURCE --safetensors FILE\n"
    "       dynpipe checkpoint import FILE.safetensors --model FILE --out FILE.h5\n\n"
    "  export  write weights of a checkpoint as PyTorch reads them\n"
    "  import  make a file of weights of PyTorch's\n\n"
    "dynpipe checkpoint COMMAND --help tells a command's options. None needs MPI.\n";

void export_weights(const std::vector<std::string>& words) {
  const auto options = app::parse_export_options(words);
  fmt::print("{}", options ? app::export_weights(*options) : app::export_help());
}

void import_weights(const std::vector<std::string>& words) {
  const auto options = app::parse_import_weights_options(words);
  fmt::print("{}", options ? app::import_weights(*options) : app::import_weights_help());
}

}  // namespace

int checkpoint(int argc, char** argv) {
  return run_alone([&] {
    std::vector<std::string> words = words_of(argc, argv);
    const std::string wanted = words.empty() ? "" : words.front();
    if (!words.empty()) words.erase(words.begin());
    if (wanted == "export") return export_weights(words);
    if (wanted == "import") return import_weights(words);
    if (wanted == "--help") return fmt::print("{}", k_help);
    const std::vector<std::string> known = {"export", "import"};
    throw base::InputError("", "checkpoint",
                           wanted.empty()
                               ? "export or import is missing; see dynpipe checkpoint --help"
                               : fmt::format("'{}' is not one of its commands{}", wanted,
                                             app::did_you_mean(wanted, known)));
  });
}

}  // namespace dynpipe::cli
