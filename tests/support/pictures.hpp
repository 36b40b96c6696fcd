#pragma once

#include <filesystem>

#include "data/picture.hpp"

namespace dynpipe::testing {

/// Waves of colour, or of grey, that move with `phase`.
data::Picture waves(std::int64_t height, std::int64_t width, int channels, int phase = 0);

/// Writes red, green, blue (and a fourth channel: opacity) or grey.
void write_png(const std::filesystem::path& path, const data::Picture& picture);
/// Writes red, green, blue or grey, at a quality that loses little.
void write_jpeg(const std::filesystem::path& path, const data::Picture& picture);
/// Leaves so many of a file's bytes.
void truncate(const std::filesystem::path& path, double share);

}  // namespace dynpipe::testing
