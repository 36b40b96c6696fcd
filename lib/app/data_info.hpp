#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/terminal_image.hpp"

namespace dynpipe::app {

/// What `dynpipe data info` was asked to tell.
struct InfoOptions {
  std::string place;        ///< folder or HDF5 file
  std::int64_t images = 3;  ///< to draw
  bool check = false;       ///< read every image
};

/// Text of `dynpipe data info --help`.
std::string info_help();

/// Reads the words after `info`. Empty if --help was asked for. Throws InputError naming the
/// option.
std::optional<InfoOptions> parse_info_options(const std::vector<std::string>& words);

/// Describes a data set in lines of no more than 80 columns: format, shapes, splits, pixels,
/// classes, and some training images. Throws InputError for what is wrong with it.
std::string describe_data(const InfoOptions& options, Colours colours);

}  // namespace dynpipe::app
