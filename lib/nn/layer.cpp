#include "nn/layer.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace dynpipe::nn {

std::byte* Scratch::take(std::size_t bytes) {
  const std::size_t taken = device::aligned(bytes);
  if (taken > bytes_) {
    throw std::logic_error(
        fmt::format("{} bytes of scratch memory wanted where {} are left", taken, bytes_));
  }
  std::byte* const data = data_;
  data_ += taken;
  bytes_ -= taken;
  return data;
}

std::size_t batch_bytes(const Shape& sample, std::int64_t samples, tensor::DType dtype) {
  return device::aligned(static_cast<std::size_t>(samples * sample.elements()) *
                         tensor::size_of(dtype));
}

}  // namespace dynpipe::nn
