#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/shape.hpp"

namespace dynpipe::tensor {

enum class DType : std::uint8_t { float32, float64, int32 };

std::size_t size_of(DType dtype);
std::string_view name_of(DType dtype);

/// Order of the elements in memory. `plain` is row-major in the logical order. The others are the
/// backend's own, of the same size as plain; only its `Ops` knows them.
enum class Layout : std::uint8_t {
  plain,
  blocked,     ///< of images, and of a convolution's weights
  transposed,  ///< of a convolution's weights: as the gradient of its input reads them
  rows,        ///< of a convolution's weights: as the matrix of a product
};

/// A view of memory that somebody else owns, with its logical shape, e.g. [N,C,H,W].
struct Tensor {
  std::byte* data = nullptr;
  DType dtype = DType::float32;
  Layout layout = Layout::plain;
  base::Shape shape;

  std::int64_t elements() const { return shape.elements(); }
  std::size_t bytes() const { return static_cast<std::size_t>(shape.elements()) * size_of(dtype); }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
  explicit operator bool() const { return data != nullptr; }
};

}  // namespace dynpipe::tensor
