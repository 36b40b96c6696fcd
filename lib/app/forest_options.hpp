#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dynpipe::app {

/// What `dynpipe forest collect` was asked to do.
struct CollectOptions {
  std::string out;          ///< data set; goes on with it where it is there
  std::string models;       ///< files, with commas between them, in place of built-in mixes
  double minutes = 10;      ///< that the data set takes, all runs together
  double slice_s = 0.25;    ///< that a stage runs at a time
  std::optional<int> core;  ///< CPU that stages run on; empty: the last allowed
  std::string only;         ///< disturbances whose names have one of these in them
  std::uint64_t seed = 1;   ///< of the order of things
};

/// What `dynpipe forest train` was asked to do.
struct ForestTrainOptions {
  std::string data;
  std::string out = "models/forest/default.json";
  std::string kind = "auto";  ///< random, boosted, auto: the one with the lower held-out error
  std::uint64_t seed = 1;
};

/// What `dynpipe forest eval` was asked to do.
struct ForestEvalOptions {
  std::string data;
  std::string forest;  ///< empty: forests are grown for each held-out mix
  std::string kind = "auto";
  std::uint64_t seed = 1;
};

/// What `dynpipe forest explain` was asked to do.
struct ExplainOptions {
  std::string forest = "models/forest/default.json";
  std::string data;  ///< to take the prediction from; empty: one that is made up
  std::optional<std::int64_t> example;
};

std::string collect_help();
std::string forest_train_help();
std::string forest_eval_help();
std::string explain_help();

/// Read the words after `forest collect`, and so on. Empty if --help was asked for. Throw
/// InputError naming the option.
std::optional<CollectOptions> parse_collect_options(const std::vector<std::string>& words);
std::optional<ForestTrainOptions> parse_forest_train_options(const std::vector<std::string>& words);
std::optional<ForestEvalOptions> parse_forest_eval_options(const std::vector<std::string>& words);
std::optional<ExplainOptions> parse_explain_options(const std::vector<std::string>& words);

}  // namespace dynpipe::app
