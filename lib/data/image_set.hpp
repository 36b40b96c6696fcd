#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/shape.hpp"

namespace dynpipe::data {

/// Labelled images as they lie in their files: bytes, not yet normalised.
struct ImageSet {
  base::Shape image;                 ///< of one image, [C,H,W]
  std::vector<std::uint8_t> pixels;  ///< [N,C,H,W]
  std::vector<std::int32_t> labels;  ///< [N]
  std::int64_t classes = 0;          ///< largest label + 1

  /// N, the number of images.
  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
  /// The pixels of image `index`, [C,H,W].
  std::span<const std::uint8_t> pixels_of(std::int64_t index) const {
    const auto length = static_cast<std::size_t>(image.elements());
    return std::span(pixels).subspan(static_cast<std::size_t>(index) * length, length);
  }
};

/// Throws InputError unless every label lies in 0 .. classes-1; names `file` and the first label
/// that does not.
void check_labels(const ImageSet& set, std::int64_t classes, const std::string& file);

}  // namespace dynpipe::data
