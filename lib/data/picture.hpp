#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace dynpipe::data {

/// A decoded picture: rows from the top, the channels of a pixel side by side.
struct Picture {
  std::int64_t height = 0, width = 0;
  int channels = 3;                  ///< 3: red, green, blue; 1: grey
  std::vector<std::uint8_t> pixels;  ///< [height,width,channels]
};

/// Decodes a JPEG or PNG file, told by its contents, to red, green and blue; what is transparent
/// becomes black. Throws InputError for what is neither, is damaged or breaks off.
Picture read_picture(const std::filesystem::path& file);

/// Brightness, as JPEG defines it: 0.299 red + 0.587 green + 0.114 blue (ITU-R BT.601).
Picture to_grey(const Picture& colour);

}  // namespace dynpipe::data
