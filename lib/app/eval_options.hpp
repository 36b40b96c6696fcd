#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/train_options.hpp"
#include "data/data_set.hpp"

namespace dynpipe::app {

/// What `dynpipe eval` was asked to do.
struct EvalOptions {
  /// Model, data, plan and maths, as training has them.
  TrainOptions run;
  std::string weights;      ///< file
  std::string predictions;  ///< file; empty: none
  data::Split split = data::Split::test;
};

/// Text of `dynpipe eval --help`.
std::string eval_help();
/// Reads the words after `eval`. Empty if --help was asked for. Throws InputError.
std::optional<EvalOptions> parse_eval_options(const std::vector<std::string>& words);

}  // namespace dynpipe::app
