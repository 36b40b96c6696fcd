#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/shape.hpp"

namespace dynpipe::data {

enum class Split : std::uint8_t { train, test };

/// What a data set says of itself before its contents are read.
struct ImageSetHeader {
  std::int64_t count = 0;  ///< number of images, at least 1
  base::Shape image;       ///< of one image, [C,H,W]
};

/// Labelled images as they lie in their files: bytes, not yet normalised.
struct ImageSet {
  base::Shape image;                 ///< of one image, [C,H,W]
  std::vector<std::uint8_t> pixels;  ///< [N,C,H,W]
  std::vector<std::int32_t> labels;  ///< [N]
  std::int64_t classes = 0;          ///< that labels may name; where not said, largest label + 1
  std::vector<std::string> class_names{};  ///< [classes], or empty

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
void check_labels(std::span<const std::int32_t> labels, std::int64_t classes,
                  const std::string& file);

}  // namespace dynpipe::data
