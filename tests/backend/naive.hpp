#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/array.hpp"
#include "ops/ops.hpp"

/// What the operations compute, written once more in float64 with no thought of speed and from the
/// definitions, not from lib/ops: an element outside an image is a zero that is looked up.
namespace dynpipe::test::naive {

using ops::Window;

inline double padded(const Array& x, std::int64_t n, std::int64_t c, std::int64_t h,
                     std::int64_t w) {
  const bool inside = h >= 0 && h < x.shape[2] && w >= 0 && w < x.shape[3];
  return inside ? x(n, c, h, w) : 0;
}

inline base::Shape output_shape(const Window& window, const base::Shape& x, std::int64_t channels) {
  return {x[0], channels, window.output_h(x[2]), window.output_w(x[3])};
}

/// Calls visit(n, o, c, i, j, h, v, row, column) for all products of a convolution, where output
/// (n,o,h,v) meets input (n,c,row,column), perhaps in the padding, through weight (o,c,i,j).
template <typename Visit>
void for_each_product(const Window& window, const base::Shape& x, const base::Shape& y,
                      Visit visit) {
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t o = 0; o < y[1]; ++o)
      for (std::int64_t h = 0; h < y[2]; ++h)
        for (std::int64_t v = 0; v < y[3]; ++v)
          for (std::int64_t c = 0; c < x[1]; ++c)
            for (std::int64_t i = 0; i < window.kernel_h; ++i)
              for (std::int64_t j = 0; j < window.kernel_w; ++j)
                visit(n, o, c, i, j, h, v, h * window.stride_h + i - window.pad_h,
                      v * window.stride_w + j - window.pad_w);
}

/// b may be of size 0.
inline Array conv2d(const Window& window, const Array& x, const Array& w, const Array& b) {
  Array y(output_shape(window, x.shape, w.shape[0]));
  for_each_product(
      window, x.shape, y.shape,
      [&](auto n, auto o, auto c, auto i, auto j, auto h, auto v, auto row, auto column) {
        y(n, o, h, v) += w(o, c, i, j) * padded(x, n, c, row, column);
      });
  if (b.size() == 0) return y;
  for (std::int64_t n = 0; n < y.shape[0]; ++n)
    for (std::int64_t o = 0; o < y.shape[1]; ++o)
      for (std::int64_t h = 0; h < y.shape[2]; ++h)
        for (std::int64_t v = 0; v < y.shape[3]; ++v)
          y(n, o, h, v) += b[static_cast<std::size_t>(o)];
  return y;
}

inline Array conv2d_backward_input(const Window& window, const Array& dy, const Array& w,
                                   const base::Shape& x_shape) {
  Array dx(x_shape);
  for_each_product(
      window, x_shape, dy.shape,
      [&](auto n, auto o, auto c, auto i, auto j, auto h, auto v, auto row, auto column) {
        if (row < 0 || row >= x_shape[2] || column < 0 || column >= x_shape[3]) return;
        dx(n, c, row, column) += w(o, c, i, j) * dy(n, o, h, v);
      });
  return dx;
}

inline Array conv2d_backward_weights(const Window& window, const Array& dy, const Array& x) {
  Array dw({dy.shape[1], x.shape[1], window.kernel_h, window.kernel_w});
  for_each_product(
      window, x.shape, dy.shape,
      [&](auto n, auto o, auto c, auto i, auto j, auto h, auto v, auto row, auto column) {
        dw(o, c, i, j) += dy(n, o, h, v) * padded(x, n, c, row, column);
      });
  return dw;
}

/// Sum of [N,C,H,W] or [N,C] over all but C.
inline Array sum_per_channel(const Array& x) {
  Array sums({x.shape[1]});
  const std::size_t channels = sums.size();
  const std::size_t area =
      x.shape.rank() == 4 ? static_cast<std::size_t>(x.shape[2] * x.shape[3]) : 1;
  for (std::size_t i = 0; i < x.size(); ++i) sums[i / area % channels] += x[i];
  return sums;
}

/// `value` of each element's channel, in the shape of the images.
inline Array spread_channels(const Array& value, const base::Shape& images) {
  Array result(images);
  const auto area = static_cast<std::size_t>(images[2] * images[3]);
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = value[i / area % value.size()];
  return result;
}

/// a b, or a b^T or a^T b; every product of the fully connected layer is one of these.
inline Array product(const Array& a, bool transpose_a, const Array& b, bool transpose_b) {
  const std::int64_t rows = a.shape[transpose_a ? 1 : 0], inner = a.shape[transpose_a ? 0 : 1];
  Array c({rows, b.shape[transpose_b ? 0 : 1]});
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < c.shape[1]; ++j)
      for (std::int64_t k = 0; k < inner; ++k)
        c(i, j) += (transpose_a ? a(k, i) : a(i, k)) * (transpose_b ? b(j, k) : b(k, j));
  return c;
}

/// Calls visit(output, input) with places in the arrays of values, for each output of a pooling and
/// each input in its window that is not padding, row by row.
template <typename Visit>
void for_each_pooled(const Window& window, const base::Shape& x, Visit visit) {
  const base::Shape y = output_shape(window, x, x[1]);
  std::size_t output = 0;
  for (std::int64_t plane = 0; plane < y[0] * y[1]; ++plane)
    for (std::int64_t h = 0; h < y[2]; ++h)
      for (std::int64_t v = 0; v < y[3]; ++v, ++output)
        for (std::int64_t i = 0; i < window.kernel_h; ++i)
          for (std::int64_t j = 0; j < window.kernel_w; ++j) {
            const std::int64_t row = h * window.stride_h + i - window.pad_h;
            const std::int64_t column = v * window.stride_w + j - window.pad_w;
            if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
            visit(output, static_cast<std::size_t>((plane * x[2] + row) * x[3] + column));
          }
}

struct Maxima {
  Array y;
  std::vector<std::size_t> winner;  ///< of each output, its place in x.values
};

inline Maxima maxpool(const Window& window, const Array& x) {
  constexpr auto k_none = static_cast<std::size_t>(-1);
  Maxima result{Array(output_shape(window, x.shape, x.shape[1])), {}};
  result.winner.assign(result.y.size(), k_none);
  for_each_pooled(window, x.shape, [&](std::size_t output, std::size_t input) {
    if (result.winner[output] != k_none && !(x[input] > result.y[output])) return;
    result.y[output] = x[input];
    result.winner[output] = input;
  });
  return result;
}

inline Array maxpool_backward(const Maxima& maxima, const Array& dy, const base::Shape& x_shape) {
  Array dx(x_shape);
  for (std::size_t i = 0; i < dy.size(); ++i) dx[maxima.winner[i]] += dy[i];
  return dx;
}

inline Array avgpool(const Window& window, const Array& x) {
  const auto area = static_cast<double>(window.kernel_h * window.kernel_w);
  Array y(output_shape(window, x.shape, x.shape[1]));
  for_each_pooled(window, x.shape,
                  [&](std::size_t output, std::size_t input) { y[output] += x[input] / area; });
  return y;
}

inline Array avgpool_backward(const Window& window, const Array& dy, const base::Shape& x_shape) {
  const auto area = static_cast<double>(window.kernel_h * window.kernel_w);
  Array dx(x_shape);
  for_each_pooled(window, x_shape,
                  [&](std::size_t output, std::size_t input) { dx[input] += dy[output] / area; });
  return dx;
}

}  // namespace dynpipe::test::naive
