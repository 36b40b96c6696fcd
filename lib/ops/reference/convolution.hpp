#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/ops.hpp"
#include "ops/reference/images.hpp"

/// Direct convolutions. All three walk the taps w[o,c,i,j] of the filters; tap (i,j) joins output
/// (h,v) with input (h stride_h + i - pad_h, v stride_w + j - pad_w).
namespace dynpipe::ops::reference {

/// Calls visit(n, o, c, i, j, rows, columns) for every image and tap, with the outputs whose input
/// at this tap is not padding.
template <typename T, typename Visit>
void for_each_tap(const Window& window, const Images<T>& x, const Images<T>& w, const Images<T>& y,
                  Visit visit) {
  for (std::int64_t n = 0; n < x.N; ++n) {
    for (std::int64_t o = 0; o < w.N; ++o) {
      for (std::int64_t c = 0; c < w.C; ++c) {
        for (std::int64_t i = 0; i < w.H; ++i) {
          const Range rows = tap_outputs(i, window.stride_h, window.pad_h, x.H, y.H);
          for (std::int64_t j = 0; j < w.W; ++j) {
            const Range columns = tap_outputs(j, window.stride_w, window.pad_w, x.W, y.W);
            visit(n, o, c, i, j, rows, columns);
          }
        }
      }
    }
  }
}

/// y[n,o,h,v] = b[o] + sum over c,i,j of w[o,c,i,j] x[n,c,h stride_h + i - pad_h, v stride_w + j -
/// pad_w]
template <typename T>
void conv2d(const Window& window, const Tensor& x_tensor, const Tensor& w_tensor, const Tensor& b,
            const Tensor& y_tensor) {
  const Images<T> x(x_tensor), w(w_tensor), y(y_tensor);
  for (std::int64_t n = 0; n < y.N; ++n) {
    for (std::int64_t o = 0; o < y.C; ++o) {
      std::fill_n(y.row(n, o, 0), y.H * y.W, b ? b.as<T>()[o] : T{0});
    }
  }
  for_each_tap(window, x, w, y,
               [&](std::int64_t n, std::int64_t o, std::int64_t c, std::int64_t i, std::int64_t j,
                   Range rows, Range columns) {
                 const T weight = w(o, c, i, j);
                 for (std::int64_t h = rows.first; h < rows.last; ++h) {
                   const T* in = x.row(n, c, h * window.stride_h + i - window.pad_h);
                   T* out = y.row(n, o, h);
                   for (std::int64_t v = columns.first; v < columns.last; ++v) {
                     out[v] += weight * in[v * window.stride_w + j - window.pad_w];
                   }
                 }
               });
}

/// dx[n,c,h stride_h + i - pad_h, v stride_w + j - pad_w] += w[o,c,i,j] dy[n,o,h,v], from zero
template <typename T>
void conv2d_backward_input(const Window& window, const Tensor& dy_tensor, const Tensor& w_tensor,
                           const Tensor& dx_tensor) {
  const Images<T> dy(dy_tensor), w(w_tensor), dx(dx_tensor);
  std::fill_n(dx.data, dx_tensor.elements(), T{0});
  for_each_tap(window, dx, w, dy,
               [&](std::int64_t n, std::int64_t o, std::int64_t c, std::int64_t i, std::int64_t j,
                   Range rows, Range columns) {
                 const T weight = w(o, c, i, j);
                 for (std::int64_t h = rows.first; h < rows.last; ++h) {
                   const T* in = dy.row(n, o, h);
                   T* out = dx.row(n, c, h * window.stride_h + i - window.pad_h);
                   for (std::int64_t v = columns.first; v < columns.last; ++v) {
                     out[v * window.stride_w + j - window.pad_w] += weight * in[v];
                   }
                 }
               });
}

/// dw[o,c,i,j] += sum over n,h,v of dy[n,o,h,v] x[n,c,h stride_h + i - pad_h, v stride_w + j -
/// pad_w], db[o] += sum over n,h,v of dy[n,o,h,v]
template <typename T>
void conv2d_backward_weights(const Window& window, const Tensor& dy_tensor, const Tensor& x_tensor,
                             Accumulate accumulate, const Tensor& dw_tensor, const Tensor& db) {
  const Images<T> dy(dy_tensor), x(x_tensor), dw(dw_tensor);
  if (accumulate == Accumulate::set) {
    std::fill_n(dw.data, dw_tensor.elements(), T{0});
    if (db) std::fill_n(db.as<T>(), dy.C, T{0});
  }
  for_each_tap(window, x, dw, dy,
               [&](std::int64_t n, std::int64_t o, std::int64_t c, std::int64_t i, std::int64_t j,
                   Range rows, Range columns) {
                 double sum = 0;
                 for (std::int64_t h = rows.first; h < rows.last; ++h) {
                   const T* in = x.row(n, c, h * window.stride_h + i - window.pad_h);
                   const T* out = dy.row(n, o, h);
                   for (std::int64_t v = columns.first; v < columns.last; ++v) {
                     sum += double{out[v]} * double{in[v * window.stride_w + j - window.pad_w]};
                   }
                 }
                 dw(o, c, i, j) += static_cast<T>(sum);
               });
  if (!db) return;
  for (std::int64_t n = 0; n < dy.N; ++n) {
    for (std::int64_t o = 0; o < dy.C; ++o) {
      const T* plane = dy.row(n, o, 0);
      double sum = 0;
      for (std::int64_t i = 0; i < dy.H * dy.W; ++i) sum += double{plane[i]};
      db.as<T>()[o] += static_cast<T>(sum);
    }
  }
}

}  // namespace dynpipe::ops::reference
