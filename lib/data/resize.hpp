#pragma once

#include <cstdint>

#include "data/picture.hpp"

namespace dynpipe::data {

/// Scales to height x width, each at least 1. Triangle filter along each axis, widened by the scale
/// where it shrinks, so that nothing aliases: what torchvision and Pillow call antialiased
/// bilinear.
Picture resize(const Picture& picture, std::int64_t height, std::int64_t width);

/// Scales the picture, its shape kept, until it covers height x width, and cuts that from its
/// middle.
Picture resize_and_crop(const Picture& picture, std::int64_t height, std::int64_t width);

}  // namespace dynpipe::data
