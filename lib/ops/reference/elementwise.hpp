#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

#include "ops/ops.hpp"

/// Operations that treat every element alike, whatever the layout. Each loop works on local
/// pointers and constants of type T, so that the compiler vectorises it.
namespace dynpipe::ops::reference {

template <typename T>
void scale(double factor, const Tensor& x, const Tensor& y) {
  const T* in = x.as<T>();
  T* out = y.as<T>();
  const auto f = static_cast<T>(factor);
  const std::int64_t count = x.elements();
  for (std::int64_t i = 0; i < count; ++i) out[i] = f * in[i];
}

template <typename T>
void fold(double momentum, const Tensor& value, const Tensor& running) {
  const T* in = value.as<T>();
  T* out = running.as<T>();
  const auto keep = static_cast<T>(1 - momentum), take = static_cast<T>(momentum);
  const std::int64_t count = value.elements();
  for (std::int64_t i = 0; i < count; ++i) out[i] = keep * out[i] + take * in[i];
}

template <typename T>
void relu(const Tensor& x, const Tensor& y) {
  const T* in = x.as<T>();
  T* out = y.as<T>();
  const std::int64_t count = x.elements();
  // Written so that NaN, for which the comparison is false, passes.
  for (std::int64_t i = 0; i < count; ++i) out[i] = in[i] < T{0} ? T{0} : in[i];
}

template <typename T>
void activate(Activation activation, const Tensor& y) {
  if (activation == Activation::relu) relu<T>(y, y);
}

template <typename T>
void relu_backward(const Tensor& dy, const Tensor& y, const Tensor& dx) {
  const T* gradient = dy.as<T>();
  const T* output = y.as<T>();
  T* out = dx.as<T>();
  const std::int64_t count = y.elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = gradient[i];  // loaded for every element, or the loop is not made vectors of
    out[i] = output[i] > T{0} ? value : T{0};
  }
}

template <typename T>
void add(const Tensor& a, const Tensor& b, const Tensor& y, Activation activation) {
  const T* left = a.as<T>();
  const T* right = b.as<T>();
  T* out = y.as<T>();
  const std::int64_t count = a.elements();
  if (activation == Activation::none) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = left[i] + right[i];
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const T sum = left[i] + right[i];
    out[i] = sum < T{0} ? T{0} : sum;
  }
}

template <typename T>
void fill(double value, const Tensor& x) {
  std::fill_n(x.as<T>(), x.elements(), static_cast<T>(value));
}

inline void copy(const Tensor& x, const Tensor& y) {
  if (x.data != y.data && x.bytes() > 0) std::memcpy(y.data, x.data, x.bytes());
}

/// What dropout multiplies with: 1 / (1 - p) for element i of a sample where word i mod 4 of the
/// generator's block (i / 4, sample) is at least p 2^32, else 0. One block serves four neighbours.
template <typename T>
class DropoutFactors {
 public:
  DropoutFactors(double p, const base::Philox& key)
      : key_(key),
        threshold_(static_cast<std::uint64_t>(std::ceil(p * 0x1.0p32))),
        kept_(static_cast<T>(p < 1 ? 1 / (1 - p) : 0)) {}

  /// Of the elements 4 block .. 4 block + 3.
  std::array<T, 4> of(std::uint64_t sample, std::int64_t block) const {
    const base::Philox::Block words = key_.block(static_cast<std::uint64_t>(block), sample);
    std::array<T, 4> factors;
    for (std::size_t i = 0; i < 4; ++i) {
      // No branch: the processor could not foretell it.
      factors[i] = kept_ * static_cast<T>(words[i] >= threshold_);
    }
    return factors;
  }

 private:
  base::Philox key_;
  std::uint64_t threshold_;  // 2^32, beyond every word, where p = 1
  T kept_;
};

/// dropout of plain tensors [N,...].
template <typename T>
void dropout(double p, const base::Philox& key, std::span<const std::uint64_t> samples,
             const Tensor& x, const Tensor& y) {
  const DropoutFactors<T> factors(p, key);
  const std::int64_t N = x.shape[0];
  const std::int64_t features = x.shape.without_batch().elements();
  for (std::int64_t n = 0; n < N; ++n) {
    const T* in = x.as<T>() + n * features;
    T* out = y.as<T>() + n * features;
    for (std::int64_t i = 0; i < features; i += 4) {
      const auto four = factors.of(samples[static_cast<std::size_t>(n)], i / 4);
      const std::int64_t here = std::min<std::int64_t>(4, features - i);
      for (std::int64_t j = 0; j < here; ++j) {
        out[i + j] = in[i + j] * four[static_cast<std::size_t>(j)];
      }
    }
  }
}

}  // namespace dynpipe::ops::reference
