#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/train_options.hpp"

namespace dynpipe::app {

/// What `dynpipe simulate` was asked to do.
struct SimulateOptions {
  TrainOptions train;        ///< model, batch, seed, and how to spread it over ranks
  std::string profile;       ///< file; empty: by FLOPs
  double gflops = 50;        ///< a second, of a rank without a profile
  std::string cluster;       ///< file; empty: the links of the profile, else free messages
  std::optional<int> ranks;  ///< the first ones of the cluster; empty: all
  std::int64_t updates = 50;
  std::string trace_out;  ///< file; empty: none
};

/// Text of `dynpipe simulate --help`.
std::string simulate_help();

/// Reads the words after `simulate`. Empty if --help was asked for. Throws InputError naming the
/// option.
std::optional<SimulateOptions> parse_simulate_options(const std::vector<std::string>& words);

}  // namespace dynpipe::app
