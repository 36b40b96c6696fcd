#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/ops.hpp"

namespace dynpipe::ops::reference {

/// A batch of images [N,C,H,W] in plain layout, indexed as the formulas do.
template <typename T>
struct Images {
  explicit Images(const Tensor& tensor)
      : data(tensor.as<T>()),
        N(tensor.shape[0]),
        C(tensor.shape[1]),
        H(tensor.shape[2]),
        W(tensor.shape[3]) {}

  T* row(std::int64_t n, std::int64_t c, std::int64_t h) const {
    return data + ((n * C + c) * H + h) * W;
  }
  T& operator()(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return row(n, c, h)[w];
  }

  T* data;
  std::int64_t N, C, H, W;
};

/// Half-open range [first, last) of positions along one axis; empty where last <= first.
struct Range {
  std::int64_t first, last;
};

/// The inputs that output position `out` of a window sees along one axis of `size`, padding left
/// out.
inline Range window_inputs(std::int64_t out, std::int64_t kernel, std::int64_t stride,
                           std::int64_t pad, std::int64_t size) {
  const std::int64_t start = out * stride - pad;
  return {std::max<std::int64_t>(start, 0), std::min(start + kernel, size)};
}

/// The outputs, of `outputs`, whose tap `k` of the window falls on one of `size` inputs, not on
/// padding.
inline Range tap_outputs(std::int64_t k, std::int64_t stride, std::int64_t pad, std::int64_t size,
                         std::int64_t outputs) {
  const std::int64_t first = pad > k ? (pad - k + stride - 1) / stride : 0;
  const std::int64_t reach = size - 1 + pad - k;
  return {first, reach < 0 ? 0 : std::min(outputs, reach / stride + 1)};
}

}  // namespace dynpipe::ops::reference
