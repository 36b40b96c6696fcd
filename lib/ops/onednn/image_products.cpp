#include "ops/onednn/image_products.hpp"

#include <algorithm>
#include <cstring>

#include "ops/onednn/blocked_images.hpp"
#include "ops/onednn/products.hpp"

namespace dynpipe::ops::onednn {
namespace {

/// From here on, a direct kernel's weights no longer stay in the cache from one image to the next.
constexpr std::int64_t k_large_weights = std::int64_t{1} << 20;
/// Rows of a product: enough that packing the weights for it costs little.
constexpr std::int64_t k_rows = 1024;

/// A convolution's sizes, and samples taken together.
struct Product {
  Product(const Window& window_of, const Tensor& x, const Tensor& y)
      : window(window_of),
        samples(x.shape[0]),
        inputs(x.shape[1]),
        outputs(y.shape[1]),
        area(y.shape[2] * y.shape[3]),
        depth(inputs * window.kernel_h * window.kernel_w),
        together(std::clamp<std::int64_t>(k_rows / area, 1, std::max<std::int64_t>(samples, 1))) {}

  std::size_t windows_bytes() const { return bytes(depth); }
  std::size_t values_bytes() const { return bytes(outputs); }
  std::size_t bytes(std::int64_t columns) const {
    return device::aligned(static_cast<std::size_t>(together * area * columns) * sizeof(float));
  }

  Window window;
  std::int64_t samples, inputs, outputs, area, depth, together;
};

/// Calls visit(first sample, samples, rows of windows [rows, depth], rows of values [rows,
/// outputs]) for one group of samples after the other.
template <typename Visit>
void for_each_group(const Product& product, Scratch& scratch, Visit visit) {
  std::byte* memory = scratch.reserve(product.windows_bytes() + product.values_bytes());
  auto* windows = reinterpret_cast<float*>(memory);
  auto* values = reinterpret_cast<float*>(memory + product.windows_bytes());
  for (std::int64_t n = 0; n < product.samples; n += product.together) {
    visit(n, std::min(product.together, product.samples - n), windows, values);
  }
}

/// Visits output positions row by row, with the part of a row that each of the window's taps fills:
/// visit(row, tap, input row, input column), padding with an input row of -1.
template <int B, typename Visit>
void for_each_window_tap(const Product& product, const BlockedImages<B>& x, std::int64_t outputs_h,
                         std::int64_t outputs_w, Visit visit) {
  const Window& window = product.window;
  for (std::int64_t h = 0; h < outputs_h; ++h) {
    for (std::int64_t v = 0; v < outputs_w; ++v) {
      std::int64_t tap = 0;
      for (std::int64_t i = 0; i < window.kernel_h; ++i) {
        const std::int64_t r = h * window.stride_h - window.pad_h + i;
        for (std::int64_t j = 0; j < window.kernel_w; ++j, ++tap) {
          const std::int64_t s = v * window.stride_w - window.pad_w + j;
          const bool inside = r >= 0 && r < x.H && s >= 0 && s < x.W;
          visit(h * outputs_w + v, tap, inside ? r : -1, s);
        }
      }
    }
  }
}

/// windows[row, tap, c] = what the window's tap sees of samples [first, first + count).
template <int B>
void gather_windows(const Product& product, const Tensor& x_tensor, const Tensor& y,
                    std::int64_t first, std::int64_t count, float* windows) {
  const BlockedImages<B> x(x_tensor);
  for (std::int64_t n = 0; n < count; ++n) {
    float* rows = windows + n * product.area * product.depth;
    for_each_window_tap(product, x, y.shape[2], y.shape[3],
                        [&](std::int64_t row, std::int64_t tap, std::int64_t r, std::int64_t s) {
                          float* to = rows + row * product.depth + tap * product.inputs;
                          if (r < 0) {
                            std::fill_n(to, product.inputs, 0.0F);
                            return;
                          }
                          for (std::int64_t block = 0; block < x.blocks; ++block, to += B) {
                            std::memcpy(to, x.at((first + n) * x.blocks + block, r, s),
                                        B * sizeof(float));
                          }
                        });
  }
}

/// dx += what each window's tap hands back to the input that it saw.
template <int B>
void scatter_windows(const Product& product, const float* windows, const Tensor& dy,
                     std::int64_t first, std::int64_t count, const Tensor& dx_tensor) {
  const BlockedImages<B> dx(dx_tensor);
  for (std::int64_t n = 0; n < count; ++n) {
    const float* rows = windows + n * product.area * product.depth;
    for_each_window_tap(product, dx, dy.shape[2], dy.shape[3],
                        [&](std::int64_t row, std::int64_t tap, std::int64_t r, std::int64_t s) {
                          if (r < 0) return;
                          const float* from = rows + row * product.depth + tap * product.inputs;
                          for (std::int64_t block = 0; block < dx.blocks; ++block, from += B) {
                            float* to = dx.at((first + n) * dx.blocks + block, r, s);
                            for (int lane = 0; lane < B; ++lane) to[lane] += from[lane];
                          }
                        });
  }
}

/// values[row, o] = y[n, o] at the row's position.
template <int B>
void gather_values(const Product& product, const Tensor& y_tensor, std::int64_t first,
                   std::int64_t count, float* values) {
  const BlockedImages<B> y(y_tensor);
  for (std::int64_t n = 0; n < count; ++n) {
    for (std::int64_t block = 0; block < y.blocks; ++block) {
      const float* from = y.at((first + n) * y.blocks + block, 0, 0);
      float* to = values + n * product.area * product.outputs + block * B;
      for (std::int64_t row = 0; row < product.area; ++row, from += B, to += product.outputs) {
        std::memcpy(to, from, B * sizeof(float));
      }
    }
  }
}

/// y[n, o] = activation(values[row, o] + bias[o]).
template <int B>
void scatter_values(const Product& product, const float* values, const float* bias,
                    Activation activation, std::int64_t first, std::int64_t count,
                    const Tensor& y_tensor) {
  const BlockedImages<B> y(y_tensor);
  for (std::int64_t n = 0; n < count; ++n) {
    for (std::int64_t block = 0; block < y.blocks; ++block) {
      std::array<float, B> shift{};
      if (bias != nullptr) std::copy_n(bias + block * B, B, shift.begin());
      const float* from = values + n * product.area * product.outputs + block * B;
      float* to = y.at((first + n) * y.blocks + block, 0, 0);
      for (std::int64_t row = 0; row < product.area; ++row, from += product.outputs, to += B) {
        for (std::size_t lane = 0; lane < B; ++lane) {
          const float value = from[lane] + shift[lane];
          to[lane] = activation == Activation::relu && value < 0 ? 0.0F : value;
        }
      }
    }
  }
}

}  // namespace

bool better_as_product(const base::Shape& w) {
  return w.elements() >= k_large_weights && w[2] * w[3] > 1;
}

void convolution_product(std::int64_t block, Scratch& scratch, const Window& window,
                         const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
                         Activation activation) {
  const Product product(window, x, y);
  with_block(block, [&](auto B) {
    for_each_group(product, scratch,
                   [&](std::int64_t first, std::int64_t count, float* windows, float* values) {
                     const std::int64_t rows = count * product.area;
                     gather_windows<B>(product, x, y, first, count, windows);
                     multiply(rows, product.outputs, product.depth, {windows, product.depth},
                              {w.as<float>(), product.depth, true}, 0.0F, values);
                     scatter_values<B>(product, values, b ? b.as<float>() : nullptr, activation,
                                       first, count, y);
                   });
  });
}

void convolution_product_backward_input(std::int64_t block, Scratch& scratch, const Window& window,
                                        const Tensor& dy, const Tensor& w, const Tensor& dx) {
  const Product product(window, dx, dy);
  std::fill_n(dx.as<float>(), dx.elements(), 0.0F);
  with_block(block, [&](auto B) {
    for_each_group(product, scratch,
                   [&](std::int64_t first, std::int64_t count, float* windows, float* values) {
                     const std::int64_t rows = count * product.area;
                     gather_values<B>(product, dy, first, count, values);
                     multiply(rows, product.depth, product.outputs, {values, product.outputs},
                              {w.as<float>(), product.depth}, 0.0F, windows);
                     scatter_windows<B>(product, windows, dy, first, count, dx);
                   });
  });
}

void convolution_product_backward_weights(std::int64_t block, Scratch& scratch,
                                          const Window& window, const Tensor& dy, const Tensor& x,
                                          Accumulate accumulate, const Tensor& dw,
                                          const Tensor& db) {
  const Product product(window, x, dy);
  const bool add = accumulate == Accumulate::add;
  with_block(block, [&](auto B) {
    for_each_group(product, scratch,
                   [&](std::int64_t first, std::int64_t count, float* windows, float* values) {
                     const std::int64_t rows = count * product.area;
                     gather_windows<B>(product, x, dy, first, count, windows);
                     gather_values<B>(product, dy, first, count, values);
                     const bool fresh = first == 0 && !add;
                     multiply(product.outputs, product.depth, rows, {values, product.outputs, true},
                              {windows, product.depth}, fresh ? 0.0F : 1.0F, dw.as<float>());
                     if (db) sum_rows(values, rows, fresh, db);
                   });
  });
}

}  // namespace dynpipe::ops::onednn
