#pragma once

#include "ops/ops.hpp"

/// Fully connected layers by BLAS, in float32.
namespace dynpipe::ops::onednn {

void linear(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y);
void linear_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx);
void linear_backward_weights(const Tensor& dy, const Tensor& x, Accumulate, const Tensor& dw,
                             const Tensor& db);

}  // namespace dynpipe::ops::onednn
