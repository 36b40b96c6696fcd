#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/ops.hpp"
#include "ops/reference/images.hpp"

namespace dynpipe::ops::reference {

/// y[n,c,h,v] = the largest x in the window of (h,v); choice[n,c,h,v] = its place in the plane,
/// row W + column.
template <typename T>
void maxpool(const Window& window, const Tensor& x_tensor, const Tensor& y_tensor,
             std::byte* choice) {
  const Images<T> x(x_tensor), y(y_tensor);
  auto* winner = reinterpret_cast<std::int32_t*>(choice);
  T* out = y.data;
  for (std::int64_t plane = 0; plane < y.N * y.C; ++plane) {
    const T* in = x.data + plane * x.H * x.W;
    for (std::int64_t h = 0; h < y.H; ++h) {
      const Range rows = window_inputs(h, window.kernel_h, window.stride_h, window.pad_h, x.H);
      for (std::int64_t v = 0; v < y.W; ++v) {
        const Range columns = window_inputs(v, window.kernel_w, window.stride_w, window.pad_w, x.W);
        std::int64_t best = rows.first * x.W + columns.first;
        for (std::int64_t r = rows.first; r < rows.last; ++r) {
          for (std::int64_t s = columns.first; s < columns.last; ++s) {
            const T candidate = in[r * x.W + s];
            // The first NaN wins against every number.
            if (candidate > in[best] || (std::isnan(candidate) && !std::isnan(in[best]))) {
              best = r * x.W + s;
            }
          }
        }
        *out++ = in[best];
        *winner++ = static_cast<std::int32_t>(best);
      }
    }
  }
}

/// dx[winner of (h,v)] += dy[h,v], from zero
template <typename T>
void maxpool_backward(const Tensor& dy_tensor, const std::byte* choice, const Tensor& dx_tensor) {
  const Images<T> dy(dy_tensor), dx(dx_tensor);
  std::fill_n(dx.data, dx_tensor.elements(), T{0});
  const auto* winner = reinterpret_cast<const std::int32_t*>(choice);
  const std::int64_t outputs = dy.H * dy.W;
  for (std::int64_t plane = 0; plane < dy.N * dy.C; ++plane) {
    const T* in = dy.data + plane * outputs;
    T* out = dx.data + plane * dx.H * dx.W;
    for (std::int64_t i = 0; i < outputs; ++i) out[winner[plane * outputs + i]] += in[i];
  }
}

/// y[n,c,h,v] = sum of x in the window of (h,v) / (kernel_h kernel_w)
template <typename T>
void avgpool(const Window& window, const Tensor& x_tensor, const Tensor& y_tensor) {
  const Images<T> x(x_tensor), y(y_tensor);
  const auto area = static_cast<double>(window.kernel_h * window.kernel_w);
  for (std::int64_t n = 0; n < y.N; ++n) {
    for (std::int64_t c = 0; c < y.C; ++c) {
      for (std::int64_t h = 0; h < y.H; ++h) {
        const Range rows = window_inputs(h, window.kernel_h, window.stride_h, window.pad_h, x.H);
        for (std::int64_t v = 0; v < y.W; ++v) {
          const Range columns =
              window_inputs(v, window.kernel_w, window.stride_w, window.pad_w, x.W);
          double sum = 0;
          for (std::int64_t r = rows.first; r < rows.last; ++r) {
            for (std::int64_t s = columns.first; s < columns.last; ++s) {
              sum += double{x(n, c, r, s)};
            }
          }
          y(n, c, h, v) = static_cast<T>(sum / area);
        }
      }
    }
  }
}

/// dx += dy[h,v] / (kernel_h kernel_w) over the window of (h,v), from zero
template <typename T>
void avgpool_backward(const Window& window, const Tensor& dy_tensor, const Tensor& dx_tensor) {
  const Images<T> dy(dy_tensor), dx(dx_tensor);
  std::fill_n(dx.data, dx_tensor.elements(), T{0});
  const auto area = static_cast<T>(window.kernel_h * window.kernel_w);
  for (std::int64_t n = 0; n < dy.N; ++n) {
    for (std::int64_t c = 0; c < dy.C; ++c) {
      for (std::int64_t h = 0; h < dy.H; ++h) {
        const Range rows = window_inputs(h, window.kernel_h, window.stride_h, window.pad_h, dx.H);
        for (std::int64_t v = 0; v < dy.W; ++v) {
          const Range columns =
              window_inputs(v, window.kernel_w, window.stride_w, window.pad_w, dx.W);
          const T part = dy(n, c, h, v) / area;
          for (std::int64_t r = rows.first; r < rows.last; ++r) {
            for (std::int64_t s = columns.first; s < columns.last; ++s) dx(n, c, r, s) += part;
          }
        }
      }
    }
  }
}

}  // namespace dynpipe::ops::reference
