#include "tensor/host_copy.hpp"

#include <algorithm>
#include <stdexcept>

namespace dynpipe::tensor {

HostTensor to_host(const Tensor& tensor) {
  HostTensor host{tensor.shape, {}};
  const auto count = tensor.elements();
  if (tensor.dtype == DType::float64) {
    host.values.assign(tensor.as<double>(), tensor.as<double>() + count);
  } else {
    host.values.assign(tensor.as<float>(), tensor.as<float>() + count);
  }
  return host;
}

void from_host(const HostTensor& values, const Tensor& tensor) {
  if (!(values.shape == tensor.shape)) {
    throw std::invalid_argument("a tensor of shape " + values.shape.to_string() + " does not fit " +
                                tensor.shape.to_string());
  }
  if (tensor.dtype == DType::float64) {
    std::copy(values.values.begin(), values.values.end(), tensor.as<double>());
  } else {
    std::transform(values.values.begin(), values.values.end(), tensor.as<float>(),
                   [](double value) { return static_cast<float>(value); });
  }
}

}  // namespace dynpipe::tensor
