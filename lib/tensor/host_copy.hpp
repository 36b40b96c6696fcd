#pragma once

#include "tensor/state_dict.hpp"
#include "tensor/tensor.hpp"

namespace dynpipe::tensor {

/// A copy of a plain float tensor in host-readable memory that no stream is writing.
HostTensor to_host(const Tensor& tensor);
/// Writes `values` into a plain float tensor of the same shape. Throws std::invalid_argument if
/// not.
void from_host(const HostTensor& values, const Tensor& tensor);

}  // namespace dynpipe::tensor
