#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/option_group.hpp"

namespace dynpipe::app {

/// When a run saves its state, and what it starts from.
struct CheckpointOptions {
  std::string folder;                     ///< empty: no checkpoints
  std::optional<std::int64_t> every;      ///< updates; empty: every epoch
  std::int64_t keep = 3;                  ///< newest ones; 0: all
  bool keep_best = false;                 ///< the one of the best evaluation too
  bool required = false;                  ///< a checkpoint that cannot be written ends the run
  std::string resume;                     ///< "auto", a checkpoint or a folder of them; empty: not
  std::string init_from;                  ///< checkpoint or file of weights; empty: none
  std::vector<std::string> fresh_layers;  ///< of these, `init_from` is not asked

  bool enabled() const { return !folder.empty(); }
};

/// Words of the command line before they are checked.
struct RawCheckpointOptions {
  std::string every, fresh_layers;
};

OptionGroup checkpoint_options(CheckpointOptions& options, RawCheckpointOptions& raw);
/// Throws InputError naming the option.
void check_checkpoint_options(const RawCheckpointOptions& raw,
                              const boost::program_options::variables_map& values,
                              CheckpointOptions& options);

}  // namespace dynpipe::app
