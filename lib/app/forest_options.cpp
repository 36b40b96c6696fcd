#include "app/forest_options.hpp"

#include <fmt/format.h>

#include <sstream>

#include "app/option_group.hpp"
#include "app/option_parser.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

using base::InputError;

constexpr double k_most_minutes = 24 * 60, k_longest_slice_s = 10;

OptionGroup describe(CollectOptions& o) {
  OptionGroup group("Options");
  option(group, "out", &o.out, "FILE",
         "data set (HDF5); one that is there already is gone on with; required");
  option(group, "minutes", &o.minutes, "M", "measure for so long, earlier runs included");
  option(group, "slice", &o.slice_s, "S", "let a stage run for so many seconds a measurement");
  option(group, "models", &o.models, "FILE,...",
         "take the stages of these models (JSON; default: built-in mixes of layers)");
  option(group, "core", &o.core, "N", "CPU to run stages on (default: the last allowed)");
  option(group, "only", &o.only, "TEXT,...",
         "only disturbances with one of these in their names, such as hog or stream");
  option(group, "seed", &o.seed, "N", "order of stages and disturbances");
  group.add_options()("help", "this text");
  return group;
}

OptionGroup describe(ForestTrainOptions& o) {
  OptionGroup group("Options");
  option(group, "data", &o.data, "FILE", "data set, made by dynpipe forest collect; required");
  option(group, "out", &o.out, "FILE", "the forest (JSON); its card is README.md beside it");
  option(group, "kind", &o.kind, "NAME",
         "random, boosted, or auto: the one with the lower held-out error");
  option(group, "seed", &o.seed, "N", "of what trees choose from");
  group.add_options()("help", "this text");
  return group;
}

OptionGroup describe(ForestEvalOptions& o) {
  OptionGroup group("Options");
  option(group, "data", &o.data, "FILE", "data set, made by dynpipe forest collect; required");
  option(group, "forest", &o.forest, "FILE",
         "forest (JSON), for data that it was not trained on; default: for every layer mix of the "
         "data one is grown on the others");
  option(group, "kind", &o.kind, "NAME", "without --forest: random, boosted, or auto: both");
  option(group, "seed", &o.seed, "N", "without --forest: of what trees choose from");
  group.add_options()("help", "this text");
  return group;
}

OptionGroup describe(ExplainOptions& o) {
  OptionGroup group("Options");
  option(group, "forest", &o.forest, "FILE", "forest (JSON)");
  option(group, "data", &o.data, "FILE",
         "data set to take a prediction from (default: one that is made up)");
  option(group, "example", &o.example, "N", "which of its examples (default: one in its middle)");
  group.add_options()("help", "this text");
  return group;
}

template <typename Options>
std::string help(const char* usage, const char* what) {
  Options options;
  std::ostringstream text;
  text << "usage: dynpipe forest " << usage << "\n\n"
       << what << "\n"
       << describe(options) << "\nExit codes: 0 done, 1 the run failed, 2 wrong usage or input.\n";
  return text.str();
}

template <typename Options>
std::optional<Options> parse(const char* command, const std::vector<std::string>& words) {
  Options options;
  if (!parse_words(command, words, describe(options))) return std::nullopt;
  return options;
}

void require(const std::string& value, const char* option) {
  if (value.empty()) throw InputError("", option, "is missing");
}

void check_kind(const std::string& kind) {
  if (kind != "auto" && kind != "random" && kind != "boosted") {
    throw InputError("", "--kind", fmt::format("must be auto, random or boosted, is '{}'", kind));
  }
}

void check_range(const char* option, double value, double most) {
  if (!(value > 0 && value <= most)) {
    throw InputError("", option, fmt::format("must be above 0, at most {}, is {}", most, value));
  }
}

}  // namespace

std::string collect_help() {
  return help<CollectOptions>(
      "collect --out FILE [options]",
      "Measures how much longer stages take here when something disturbs them: runs short\n"
      "stages of several mixes of layers on one core, and beside them busy loops, a quota of\n"
      "the control group (as root, version 1) and stress-ng, where it is installed, on the same\n"
      "core and on another. Wants a machine that is otherwise quiet.\n");
}

std::string forest_train_help() {
  return help<ForestTrainOptions>(
      "train --data FILE [options]",
      "Grows the forest that predicts slowdowns, and tells how well it does on layer mixes that\n"
      "it has not seen.\n");
}

std::string forest_eval_help() {
  return help<ForestEvalOptions>(
      "eval --data FILE [options]",
      "Compares predicted slowdowns with measured ones, beside the error of taking the slowdown\n"
      "that was measured on a rank for that of every stage.\n");
}

std::string explain_help() {
  return help<ExplainOptions>("explain [options]",
                              "Tells which features matter, and takes one prediction apart.\n");
}

std::optional<CollectOptions> parse_collect_options(const std::vector<std::string>& words) {
  auto options = parse<CollectOptions>("forest collect", words);
  if (!options) return options;
  require(options->out, "--out");
  check_range("--minutes", options->minutes, k_most_minutes);
  check_range("--slice", options->slice_s, k_longest_slice_s);
  return options;
}

std::optional<ForestTrainOptions> parse_forest_train_options(
    const std::vector<std::string>& words) {
  auto options = parse<ForestTrainOptions>("forest train", words);
  if (!options) return options;
  require(options->data, "--data");
  require(options->out, "--out");
  check_kind(options->kind);
  return options;
}

std::optional<ForestEvalOptions> parse_forest_eval_options(const std::vector<std::string>& words) {
  auto options = parse<ForestEvalOptions>("forest eval", words);
  if (!options) return options;
  require(options->data, "--data");
  check_kind(options->kind);
  return options;
}

std::optional<ExplainOptions> parse_explain_options(const std::vector<std::string>& words) {
  auto options = parse<ExplainOptions>("forest explain", words);
  if (!options) return options;
  require(options->forest, "--forest");
  if (options->example && (*options->example < 0 || options->data.empty())) {
    throw InputError("", "--example", "is a number from 0 on, of an example of --data");
  }
  return options;
}

}  // namespace dynpipe::app
