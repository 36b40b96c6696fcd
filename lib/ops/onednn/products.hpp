#pragma once

#include "ops/ops.hpp"

/// Products of matrices by BLAS and fully connected layers, in float32.
namespace dynpipe::ops::onednn {

/// A row-major matrix as BLAS takes it: C = A B + beta C, A of m x k after `transposed`.
struct Factor {
  const float* data;
  std::int64_t row_length;
  bool transposed = false;
};
/// c [m,n] = a [m,k] b [k,n] + beta c, the factors after their transposition.
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const Factor& a, const Factor& b,
              float beta, float* c);
/// sums [columns] = or += the sum of rows [count, columns].
void sum_rows(const float* rows, std::int64_t count, bool fresh, const Tensor& sums);

void linear(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y);
void linear_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx);
void linear_backward_weights(const Tensor& dy, const Tensor& x, Accumulate, const Tensor& dw,
                             const Tensor& db);

}  // namespace dynpipe::ops::onednn
