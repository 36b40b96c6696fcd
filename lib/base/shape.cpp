#include "base/shape.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

namespace dynpipe::base {

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  if (rank_ > k_max_rank) throw std::length_error("a shape has at most four dimensions");
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

std::int64_t Shape::elements() const {
  std::int64_t product = 1;
  for (int axis = 0; axis < rank_; ++axis) product *= (*this)[axis];
  return product;
}

Shape Shape::with_batch(std::int64_t n) const {
  if (rank_ == k_max_rank) throw std::length_error("no room for a batch dimension");
  Shape batched;
  batched.rank_ = rank_ + 1;
  batched.dims_[0] = n;
  std::copy_n(dims_.begin(), rank_, batched.dims_.begin() + 1);
  return batched;
}

Shape Shape::without_batch() const {
  if (rank_ == 0) throw std::length_error("a scalar has no batch dimension");
  Shape sample;
  sample.rank_ = rank_ - 1;
  std::copy_n(dims_.begin() + 1, rank_ - 1, sample.dims_.begin());
  return sample;
}

std::string Shape::to_string() const {
  return fmt::format("[{}]", fmt::join(dims_.begin(), dims_.begin() + rank_, ","));
}

}  // namespace dynpipe::base
