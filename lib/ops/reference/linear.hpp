#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/ops.hpp"

namespace dynpipe::ops::reference {

/// y[n,o] = b[o] + sum over i of x[n,i] w[o,i]
template <typename T>
void linear(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y) {
  const std::int64_t N = x.shape[0], I = x.shape[1], O = w.shape[0];
  for (std::int64_t n = 0; n < N; ++n) {
    const T* in = x.as<T>() + n * I;
    for (std::int64_t o = 0; o < O; ++o) {
      const T* weights = w.as<T>() + o * I;
      double sum = b ? double{b.as<T>()[o]} : 0;
      for (std::int64_t i = 0; i < I; ++i) sum += double{in[i]} * double{weights[i]};
      y.as<T>()[n * O + o] = static_cast<T>(sum);
    }
  }
}

/// dx[n,i] = sum over o of dy[n,o] w[o,i]
template <typename T>
void linear_backward_input(const Tensor& dy, const Tensor& w, const Tensor& dx) {
  const std::int64_t N = dy.shape[0], O = w.shape[0], I = w.shape[1];
  for (std::int64_t n = 0; n < N; ++n) {
    T* out = dx.as<T>() + n * I;
    std::fill_n(out, I, T{0});
    for (std::int64_t o = 0; o < O; ++o) {
      const T gradient = dy.as<T>()[n * O + o];
      const T* weights = w.as<T>() + o * I;
      for (std::int64_t i = 0; i < I; ++i) out[i] += gradient * weights[i];
    }
  }
}

/// dw[o,i] += sum over n of dy[n,o] x[n,i], db[o] += sum over n of dy[n,o]
template <typename T>
void linear_backward_weights(const Tensor& dy, const Tensor& x, Accumulate accumulate,
                             const Tensor& dw, const Tensor& db) {
  const std::int64_t N = dy.shape[0], O = dw.shape[0], I = dw.shape[1];
  if (accumulate == Accumulate::set) {
    std::fill_n(dw.as<T>(), O * I, T{0});
    if (db) std::fill_n(db.as<T>(), O, T{0});
  }
  for (std::int64_t o = 0; o < O; ++o) {
    T* out = dw.as<T>() + o * I;
    for (std::int64_t n = 0; n < N; ++n) {
      const T gradient = dy.as<T>()[n * O + o];
      const T* in = x.as<T>() + n * I;
      for (std::int64_t i = 0; i < I; ++i) out[i] += gradient * in[i];
      if (db) db.as<T>()[o] += gradient;
    }
  }
}

}  // namespace dynpipe::ops::reference
