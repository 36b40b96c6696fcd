#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "nn/parameters.hpp"

namespace dynpipe::pipeline {

/// What a stage's gradient of one group has in common with those of the groups before it.
struct LagSample {
  static constexpr int k_lags = 8;

  std::int64_t group = 0;
  double square = 0;  ///< |g|^2
  /// By lag, from 1: g times the gradient so many groups before, and the square of that.
  std::array<double, k_lags> products{}, squares{};
};

/// Looks at the gradients of a stage's weights, a group's sum at a time, and compares that of every
/// so many groups with the `k_lags` before it. It reads a fixed part of at most 2^16 elements,
/// drawn once in runs of 16, and scales what it finds to the whole; it changes nothing.
class GradientLag {
 public:
  static constexpr int k_lags = LagSample::k_lags;

  /// `every`: groups from one comparison to the next, at least 1. `parameters`: how gradients lie.
  GradientLag(const nn::FlatLayout& parameters, tensor::DType dtype, std::uint64_t seed,
              std::int64_t every);

  /// Groups come in order. Launched on `stream` is the reading of `gradients`, laid out as said.
  void take(std::int64_t group, const std::byte* gradients, device::Stream& stream);

  /// Comparisons so far: of groups every - 1, 2 every - 1, ..., as far as the groups before them
  /// have been seen. The stream is idle.
  const std::vector<LagSample>& samples() const { return samples_; }

 private:
  /// Elements that are read, next to each other.
  struct Run {
    std::int64_t first;
    std::int64_t count;
  };
  struct Kept {
    std::int64_t group = -1;
    std::vector<float> elements;
  };
  void keep(std::int64_t group, const std::byte* gradients);
  void compare(std::int64_t group);
  Kept& place(std::int64_t group) { return kept_[static_cast<std::size_t>(group) % kept_.size()]; }

  tensor::DType dtype_;
  std::int64_t every_;
  std::vector<Run> runs_;
  double scale_ = 1;  ///< elements there are / elements that are read
  std::array<Kept, k_lags + 1> kept_;
  std::vector<LagSample> samples_;
};

/// Cosines by lag, from 1, of whole gradients: `stages` has every stage's samples, of the same
/// groups. Each comparison counts alike. Empty where there is none.
std::vector<double> lag_cosines(const std::vector<std::vector<LagSample>>& stages);

}  // namespace dynpipe::pipeline
