#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/train_options.hpp"

namespace dynpipe::app {

/// What `dynpipe profile` was asked to do.
struct ProfileOptions {
  /// As training has them: model, data (empty: made-up pictures), batch, optimizer, dtype, backend,
  /// threads, seed.
  TrainOptions train;
  std::vector<int> microbatches;  ///< counts of a batch's parts: each gives a microbatch size
  std::string out;                ///< file; empty: none
  double seconds = 10;            ///< to measure layers for, at most
  OptionTexts texts;              ///< of all options, to be compared with other ranks'
};

/// Text of `dynpipe profile --help`.
std::string profile_help();

/// Reads the words after `profile`. Empty if --help was asked for. Throws InputError naming the
/// option.
std::optional<ProfileOptions> parse_profile_options(const std::vector<std::string>& words);

/// The sizes of microbatches when a batch has so many parts, the larger of two where they are not
/// even: rising, each once.
std::vector<std::int64_t> microbatch_sizes(std::int64_t batch,
                                           const std::vector<int>& microbatches);

}  // namespace dynpipe::app
