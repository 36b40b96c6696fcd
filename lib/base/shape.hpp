#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace dynpipe::base {

/// Dimensions of a tensor, outermost first, at most four, as PyTorch writes them: [N,C,H,W].
/// A value type without allocation, so that views of it can be made in a training step.
class Shape {
 public:
  static constexpr int k_max_rank = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);
  explicit Shape(std::span<const std::int64_t> dims);

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return dims_[static_cast<std::size_t>(axis)]; }
  /// Product of the dimensions; 1 for a scalar.
  std::int64_t elements() const;
  /// This per-sample shape with a batch dimension of `n` put before it.
  Shape with_batch(std::int64_t n) const;
  /// This batched shape without its first dimension.
  Shape without_batch() const;
  /// "[32,28,28]"
  std::string to_string() const;

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, k_max_rank> dims_{};
  int rank_ = 0;
};

}  // namespace dynpipe::base
