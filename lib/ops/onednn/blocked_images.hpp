#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "ops/ops.hpp"
#include "ops/reference/elementwise.hpp"
#include "ops/reference/images.hpp"

/// Our own loops over blocked images [N,C/B,H,W,B]: the B lanes of a block lie side by side, and
/// every inner loop runs over them. The library's poolings let NaN disappear, and are several times
/// slower than these.
namespace dynpipe::ops::onednn {

/// Calls work(std::integral_constant<int, B>) for the block in use.
template <typename Work>
void with_block(std::int64_t block, Work work) {
  if (block == 16) {
    work(std::integral_constant<int, 16>{});
  } else {
    work(std::integral_constant<int, 8>{});
  }
}

template <int B>
struct BlockedImages {
  explicit BlockedImages(const Tensor& tensor)
      : data(tensor.as<float>()),
        N(tensor.shape[0]),
        blocks(tensor.shape[1] / B),
        H(tensor.shape[2]),
        W(tensor.shape[3]) {}

  /// The B lanes at (h, w) of `plane` = n blocks + block.
  float* at(std::int64_t plane, std::int64_t h, std::int64_t w) const {
    return data + ((plane * H + h) * W + w) * B;
  }
  std::int64_t planes() const { return N * blocks; }

  float* data;
  std::int64_t N, blocks, H, W;
};

/// Calls visit(tap, r, s) for each position (r, s) of x under the window of (h, v), row by row; tap
/// numbers the window's positions, padding included.
template <int B, typename Visit>
void for_each_tap(const Window& window, const BlockedImages<B>& x, std::int64_t h, std::int64_t v,
                  Visit visit) {
  const auto rows =
      reference::window_inputs(h, window.kernel_h, window.stride_h, window.pad_h, x.H);
  const auto columns =
      reference::window_inputs(v, window.kernel_w, window.stride_w, window.pad_w, x.W);
  for (std::int64_t r = rows.first; r < rows.last; ++r) {
    const std::int64_t i = r - (h * window.stride_h - window.pad_h);
    for (std::int64_t s = columns.first; s < columns.last; ++s) {
      const std::int64_t j = s - (v * window.stride_w - window.pad_w);
      visit(static_cast<std::int32_t>(i * window.kernel_w + j), r, s);
    }
  }
}

/// Four lanes at once, which the compiler does not find by itself where a comparison decides. This
/// is the vector extension of GCC and Clang: four-wide on every machine, whatever its instructions.
using Quad [[gnu::vector_size(16)]] = float;
using QuadTaps [[gnu::vector_size(16)]] = std::int32_t;

template <typename Lanes, typename T>
Lanes load(const T* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

template <typename Lanes, typename T>
void store(const Lanes& lanes, T* to) {
  std::memcpy(to, &lanes, sizeof lanes);
}

/// choice[n,c,h,v] = the winner's tap, in y's layout
template <int B>
void maxpool(const Window& window, const Tensor& x_tensor, const Tensor& y_tensor,
             std::byte* choice) {
  constexpr int quads = B / 4;
  const BlockedImages<B> x(x_tensor), y(y_tensor);
  auto* winners = reinterpret_cast<std::int32_t*>(choice);
  for (std::int64_t plane = 0; plane < y.planes(); ++plane) {
    for (std::int64_t h = 0; h < y.H; ++h) {
      for (std::int64_t v = 0; v < y.W; ++v, winners += B) {
        Quad best[quads] = {};
        QuadTaps winner[quads];
        for (QuadTaps& none : winner) none = QuadTaps{} - 1;
        for_each_tap(window, x, h, v, [&](std::int32_t tap, std::int64_t r, std::int64_t s) {
          const float* in = x.at(plane, r, s);
          for (int q = 0; q < quads; ++q) {
            const Quad candidate = load<Quad>(in + 4 * q);
            // The first tap wins against nothing, and NaN against everything.
            const QuadTaps wins =
                (winner[q] < 0) | (candidate > best[q]) | (candidate != candidate);
            best[q] = wins ? candidate : best[q];
            winner[q] = wins ? QuadTaps{} + tap : winner[q];
          }
        });
        for (int q = 0; q < quads; ++q) {
          store(best[q], y.at(plane, h, v) + 4 * q);
          store(winner[q], winners + 4 * q);
        }
      }
    }
  }
}

template <int B>
void maxpool_backward(const Window& window, const Tensor& dy_tensor, const std::byte* choice,
                      const Tensor& dx_tensor) {
  const BlockedImages<B> dy(dy_tensor), dx(dx_tensor);
  std::fill_n(dx.data, dx_tensor.elements(), 0.0F);
  const auto* winner = reinterpret_cast<const std::int32_t*>(choice);
  for (std::int64_t plane = 0; plane < dy.planes(); ++plane) {
    for (std::int64_t h = 0; h < dy.H; ++h) {
      for (std::int64_t v = 0; v < dy.W; ++v, winner += B) {
        const float* in = dy.at(plane, h, v);
        for_each_tap(window, dx, h, v, [&](std::int32_t tap, std::int64_t r, std::int64_t s) {
          float* out = dx.at(plane, r, s);
          for (int lane = 0; lane < B; lane += 4) {
            const auto won = load<QuadTaps>(winner + lane) == tap;
            const Quad gradient = won ? load<Quad>(in + lane) : Quad{};
            store(load<Quad>(out + lane) + gradient, out + lane);
          }
        });
      }
    }
  }
}

template <int B>
void avgpool(const Window& window, const Tensor& x_tensor, const Tensor& y_tensor) {
  const BlockedImages<B> x(x_tensor), y(y_tensor);
  const auto area = static_cast<float>(window.kernel_h * window.kernel_w);
  for (std::int64_t plane = 0; plane < y.planes(); ++plane) {
    for (std::int64_t h = 0; h < y.H; ++h) {
      for (std::int64_t v = 0; v < y.W; ++v) {
        std::array<float, B> sum{};
        for_each_tap(window, x, h, v, [&](std::int32_t, std::int64_t r, std::int64_t s) {
          const float* in = x.at(plane, r, s);
          for (std::size_t lane = 0; lane < B; ++lane) sum[lane] += in[lane];
        });
        float* out = y.at(plane, h, v);
        for (std::size_t lane = 0; lane < B; ++lane) out[lane] = sum[lane] / area;
      }
    }
  }
}

template <int B>
void avgpool_backward(const Window& window, const Tensor& dy_tensor, const Tensor& dx_tensor) {
  const BlockedImages<B> dy(dy_tensor), dx(dx_tensor);
  std::fill_n(dx.data, dx_tensor.elements(), 0.0F);
  const auto area = static_cast<float>(window.kernel_h * window.kernel_w);
  for (std::int64_t plane = 0; plane < dy.planes(); ++plane) {
    for (std::int64_t h = 0; h < dy.H; ++h) {
      for (std::int64_t v = 0; v < dy.W; ++v) {
        std::array<float, B> part;
        const float* in = dy.at(plane, h, v);
        for (std::size_t lane = 0; lane < B; ++lane) part[lane] = in[lane] / area;
        for_each_tap(window, dx, h, v, [&](std::int32_t, std::int64_t r, std::int64_t s) {
          float* out = dx.at(plane, r, s);
          for (std::size_t lane = 0; lane < B; ++lane) out[lane] += part[lane];
        });
      }
    }
  }
}

template <int B>
void batchnorm_inference(double epsilon, const Tensor& x_tensor, const Tensor& gamma,
                         const Tensor& beta, const Tensor& mean, const Tensor& variance,
                         const Tensor& y_tensor) {
  const BlockedImages<B> x(x_tensor), y(y_tensor);
  for (std::int64_t block = 0; block < x.blocks; ++block) {
    std::array<float, B> slope, centre, shift;
    for (std::size_t lane = 0; lane < B; ++lane) {
      const std::int64_t c = block * B + static_cast<std::int64_t>(lane);
      centre[lane] = mean.as<float>()[c];
      shift[lane] = beta.as<float>()[c];
      slope[lane] = static_cast<float>(double{gamma.as<float>()[c]} /
                                       std::sqrt(double{variance.as<float>()[c]} + epsilon));
    }
    for (std::int64_t n = 0; n < x.N; ++n) {
      const float* in = x.at(n * x.blocks + block, 0, 0);
      float* out = y.at(n * x.blocks + block, 0, 0);
      for (std::int64_t i = 0; i < x.H * x.W; ++i, in += B, out += B) {
        for (std::size_t lane = 0; lane < B; ++lane) {
          out[lane] = slope[lane] * (in[lane] - centre[lane]) + shift[lane];
        }
      }
    }
  }
}

/// Draws by the logical index of an element, c H W + position, whatever its place in memory.
template <int B>
void dropout(double p, const base::Philox& key, std::span<const std::uint64_t> samples,
             const Tensor& x_tensor, const Tensor& y_tensor) {
  const BlockedImages<B> x(x_tensor), y(y_tensor);
  const reference::DropoutFactors<float> factors(p, key);
  const std::int64_t area = x.H * x.W;
  for (std::int64_t n = 0; n < x.N; ++n) {
    std::array<float, 4> four{};
    std::int64_t i = 0;
    for (std::int64_t c = 0; c < x.blocks * B; ++c) {
      const std::int64_t first = (n * x.blocks + c / B) * area * B + c % B;
      for (std::int64_t position = 0; position < area; ++position, ++i) {
        if (i % 4 == 0) four = factors.of(samples[static_cast<std::size_t>(n)], i / 4);
        const std::int64_t place = first + position * B;
        y.data[place] = x.data[place] * four[static_cast<std::size_t>(i % 4)];
      }
    }
  }
}

}  // namespace dynpipe::ops::onednn
