#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/data_import.hpp"
#include "app/data_info.hpp"
#include "app/option_parser.hpp"
#include "base/errors.hpp"
#include "commands.hpp"

namespace dynpipe::cli {
namespace {

constexpr std::string_view k_help =
    "usage: dynpipe data import SOURCE FILE.h5 [options]\n"
    "       dynpipe data info PLACE [options]\n\n"
    "  import  make an HDF5 data set of pictures in folders or of another data set\n"
    "  info    tell what a data set holds\n\n"
    "dynpipe data import --help and dynpipe data info --help tell their options.\n";

void import_data(const std::vector<std::string>& words) {
  if (const auto options = app::parse_import_options(words)) {
    app::import_data(*options);
  } else {
    fmt::print("{}", app::import_help());
  }
}

void describe_data(const std::vector<std::string>& words) {
  if (const auto options = app::parse_info_options(words)) {
    fmt::print("{}", app::describe_data(*options, app::colours_of_output()));
  } else {
    fmt::print("{}", app::info_help());
  }
}

}  // namespace

int data(int argc, char** argv) {
  return run_alone([&] {
    std::vector<std::string> words = words_of(argc, argv);
    const std::string wanted = words.empty() ? "" : words.front();
    if (!words.empty()) words.erase(words.begin());
    if (wanted == "import") return import_data(words);
    if (wanted == "info") return describe_data(words);
    if (wanted == "--help") return fmt::print("{}", k_help);
    const std::vector<std::string> known = {"import", "info"};
    throw base::InputError("", "data",
                           wanted.empty() ? "import or info is missing; see dynpipe data --help"
                                          : fmt::format("'{}' is neither import nor info{}", wanted,
                                                        app::did_you_mean(wanted, known)));
  });
}

}  // namespace dynpipe::cli
