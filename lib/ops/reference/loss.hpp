#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/ops.hpp"

namespace dynpipe::ops::reference {

/// loss_n = log(sum over k of exp(z[n,k])) - z[n,label], with the largest z taken out of the
/// exponentials; dz[n,k] = gradient_scale (exp(z[n,k]) / sum - [k = label]). All in double.
template <typename T>
void softmax_cross_entropy(const Tensor& logits, const Tensor& labels, double gradient_scale,
                           Accumulate accumulate, const Tensor& totals, const Tensor& dlogits) {
  const std::int64_t N = logits.shape[0], K = logits.shape[1];
  double loss = 0, correct = 0;
  for (std::int64_t n = 0; n < N; ++n) {
    const T* z = logits.as<T>() + n * K;
    const std::int64_t label = labels.as<std::int32_t>()[n];
    const T* largest = std::max_element(z, z + K);
    double sum = 0;
    for (std::int64_t k = 0; k < K; ++k) sum += std::exp(double{z[k]} - double{*largest});
    loss += std::log(sum) - (double{z[label]} - double{*largest});
    correct += largest - z == label ? 1 : 0;
    if (!dlogits) continue;
    T* dz = dlogits.as<T>() + n * K;
    for (std::int64_t k = 0; k < K; ++k) {
      const double softmax = std::exp(double{z[k]} - double{*largest}) / sum;
      dz[k] = static_cast<T>(gradient_scale * (softmax - (k == label ? 1 : 0)));
    }
  }
  auto* total = totals.as<double>();
  total[0] = (accumulate == Accumulate::add ? total[0] : 0) + loss;
  total[1] = (accumulate == Accumulate::add ? total[1] : 0) + correct;
}

}  // namespace dynpipe::ops::reference
