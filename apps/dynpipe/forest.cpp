#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/forest_collect.hpp"
#include "app/forest_commands.hpp"
#include "app/forest_options.hpp"
#include "app/option_parser.hpp"
#include "base/errors.hpp"
#include "commands.hpp"

namespace dynpipe::cli {
namespace {

constexpr std::string_view k_help =
    "usage: dynpipe forest collect --out FILE.h5 [options]\n"
    "       dynpipe forest train --data FILE.h5 [options]\n"
    "       dynpipe forest eval --data FILE.h5 [options]\n"
    "       dynpipe forest explain [options]\n\n"
    "  collect  measure how disturbances slow stages on this machine\n"
    "  train    grow the forest that predicts such slowdowns\n"
    "  eval     compare predicted slowdowns with measured ones\n"
    "  explain  tell which features matter, and take one prediction apart\n\n"
    "dynpipe forest collect --help, and so on, tell their options.\n";

void collect(const std::vector<std::string>& words) {
  if (const auto options = app::parse_collect_options(words)) {
    app::collect_forest_data(*options);
  } else {
    fmt::print("{}", app::collect_help());
  }
}

/// A command that says something in the end.
template <typename Options>
void say(const std::optional<Options>& options, std::string (*command)(const Options&),
         std::string (*help)()) {
  fmt::print("{}", options ? command(*options) : help());
}

}  // namespace

int forest(int argc, char** argv) {
  return run_alone([&] {
    std::vector<std::string> words = words_of(argc, argv);
    const std::string wanted = words.empty() ? "" : words.front();
    if (!words.empty()) words.erase(words.begin());
    if (wanted == "collect") return collect(words);
    if (wanted == "train") {
      return say(app::parse_forest_train_options(words), app::train_forest, app::forest_train_help);
    }
    if (wanted == "eval") {
      return say(app::parse_forest_eval_options(words), app::evaluate_forest,
                 app::forest_eval_help);
    }
    if (wanted == "explain") {
      return say(app::parse_explain_options(words), app::explain_forest, app::explain_help);
    }
    if (wanted == "--help") return fmt::print("{}", k_help);
    const std::vector<std::string> known = {"collect", "train", "eval", "explain"};
    throw base::InputError(
        "", "forest",
        wanted.empty() ? "collect, train, eval or explain is missing; see dynpipe forest --help"
                       : fmt::format("'{}' is none of collect, train, eval, explain{}", wanted,
                                     app::did_you_mean(wanted, known)));
  });
}

}  // namespace dynpipe::cli
