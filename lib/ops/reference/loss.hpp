#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "ops/ops.hpp"

namespace dynpipe::ops::reference {

/// With p[n,k] = exp(z[n,k]) / sum over j of exp(z[n,j]), the largest z taken out of the
/// exponentials, and q[n,k] = (1 - smoothing) [k = label] + smoothing / K:
/// loss_n = - sum over k of q[n,k] log p[n,k]; dz[n,k] = gradient_scale (p[n,k] - q[n,k]). All in
/// double.
template <typename T>
void softmax_cross_entropy(double smoothing, const Tensor& logits, const Tensor& labels,
                           double gradient_scale, Accumulate accumulate, const Tensor& totals,
                           const Tensor& dlogits) {
  const std::int64_t N = logits.shape[0], K = logits.shape[1];
  const double everywhere = smoothing / static_cast<double>(K);
  double loss = 0, correct = 0;
  for (std::int64_t n = 0; n < N; ++n) {
    const T* z = logits.as<T>() + n * K;
    const std::int64_t label = labels.as<std::int32_t>()[n];
    const T* largest = std::max_element(z, z + K);
    double sum = 0;
    for (std::int64_t k = 0; k < K; ++k) sum += std::exp(double{z[k]} - double{*largest});
    double expected = double{z[label]} - double{*largest};
    if (smoothing > 0) {  // else an infinitely unlikely class would make a NaN
      double rest = 0;
      for (std::int64_t k = 0; k < K; ++k) rest += double{z[k]} - double{*largest};
      expected = (1 - smoothing) * expected + everywhere * rest;
    }
    loss += std::log(sum) - expected;
    correct += largest - z == label ? 1 : 0;
    if (!dlogits) continue;
    T* dz = dlogits.as<T>() + n * K;
    for (std::int64_t k = 0; k < K; ++k) {
      const double softmax = std::exp(double{z[k]} - double{*largest}) / sum;
      const double target = everywhere + (k == label ? 1 - smoothing : 0);
      dz[k] = static_cast<T>(gradient_scale * (softmax - target));
    }
  }
  auto* total = totals.as<double>();
  total[0] = (accumulate == Accumulate::add ? total[0] : 0) + loss;
  total[1] = (accumulate == Accumulate::add ? total[1] : 0) + correct;
}

}  // namespace dynpipe::ops::reference
