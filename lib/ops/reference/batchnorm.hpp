#pragma once

#include <cmath>
#include <cstdint>

#include "ops/ops.hpp"
#include "ops/reference/images.hpp"

/// Batch normalisation (Ioffe and Szegedy, 2015) with sums in double.
namespace dynpipe::ops::reference {

/// Calls visit(n, plane) for the H W values of channel c in every image.
template <typename T, typename Visit>
void for_each_plane(const Images<T>& x, std::int64_t c, Visit visit) {
  for (std::int64_t n = 0; n < x.N; ++n) visit(n, x.row(n, c, 0));
}

/// y = gamma (x - mean) / sqrt(variance + epsilon) + beta of channel c
template <typename T>
void normalise_channel(double epsilon, std::int64_t c, const Images<T>& x, const Tensor& gamma,
                       const Tensor& beta, const Tensor& mean, const Tensor& variance,
                       const Images<T>& y) {
  const T centre = mean.as<T>()[c], shift = beta.as<T>()[c];
  const auto slope =
      static_cast<T>(double{gamma.as<T>()[c]} / std::sqrt(double{variance.as<T>()[c]} + epsilon));
  const std::int64_t area = x.H * x.W;
  for_each_plane(x, c, [&](std::int64_t n, const T* in) {
    T* out = y.row(n, c, 0);
    for (std::int64_t i = 0; i < area; ++i) out[i] = slope * (in[i] - centre) + shift;
  });
}

template <typename T>
void batchnorm_inference(double epsilon, const Tensor& x_tensor, const Tensor& gamma,
                         const Tensor& beta, const Tensor& mean, const Tensor& variance,
                         const Tensor& y_tensor) {
  const Images<T> x(x_tensor), y(y_tensor);
  for (std::int64_t c = 0; c < x.C; ++c) {
    normalise_channel(epsilon, c, x, gamma, beta, mean, variance, y);
  }
}

/// mean = sum x / m, variance = sum (x - mean)^2 / m, with m = N H W, then as in inference
template <typename T>
void batchnorm(double epsilon, const Tensor& x_tensor, const Tensor& gamma, const Tensor& beta,
               const Tensor& y_tensor, const Tensor& mean, const Tensor& variance) {
  const Images<T> x(x_tensor), y(y_tensor);
  const std::int64_t area = x.H * x.W;
  const auto m = static_cast<double>(x.N * area);
  for (std::int64_t c = 0; c < x.C; ++c) {
    double sum = 0;
    for_each_plane(x, c, [&](std::int64_t, const T* in) {
      for (std::int64_t i = 0; i < area; ++i) sum += double{in[i]};
    });
    const double centre = sum / m;
    double squares = 0;
    for_each_plane(x, c, [&](std::int64_t, const T* in) {
      for (std::int64_t i = 0; i < area; ++i) {
        squares += (double{in[i]} - centre) * (double{in[i]} - centre);
      }
    });
    mean.as<T>()[c] = static_cast<T>(centre);
    variance.as<T>()[c] = static_cast<T>(squares / m);
    normalise_channel(epsilon, c, x, gamma, beta, mean, variance, y);
  }
}

/// With z = (x - mean) / s, s = sqrt(variance + epsilon): dbeta = sum dy, dgamma = sum dy z,
/// dx = gamma / s (dy - (dbeta + z dgamma) / m)
template <typename T>
void batchnorm_backward(double epsilon, const Tensor& dy_tensor, const Tensor& x_tensor,
                        const Tensor& gamma, const Tensor& mean, const Tensor& variance,
                        const Tensor& dx_tensor, Accumulate accumulate, const Tensor& dgamma,
                        const Tensor& dbeta) {
  const Images<T> dy(dy_tensor), x(x_tensor), dx(dx_tensor);
  const std::int64_t area = x.H * x.W;
  const auto m = static_cast<double>(x.N * area);
  for (std::int64_t c = 0; c < x.C; ++c) {
    const auto centre = double{mean.as<T>()[c]};
    const double inverse = 1 / std::sqrt(double{variance.as<T>()[c]} + epsilon);
    double sum = 0, projected = 0;
    for_each_plane(x, c, [&](std::int64_t n, const T* in) {
      const T* gradient = dy.row(n, c, 0);
      for (std::int64_t i = 0; i < area; ++i) {
        sum += double{gradient[i]};
        projected += double{gradient[i]} * (double{in[i]} - centre) * inverse;
      }
    });
    const double slope = double{gamma.as<T>()[c]} * inverse;
    for_each_plane(x, c, [&](std::int64_t n, const T* in) {
      const T* gradient = dy.row(n, c, 0);
      T* out = dx.row(n, c, 0);
      for (std::int64_t i = 0; i < area; ++i) {
        const double z = (double{in[i]} - centre) * inverse;
        out[i] = static_cast<T>(slope * (double{gradient[i]} - (sum + z * projected) / m));
      }
    });
    const bool keep = accumulate == Accumulate::add;
    dgamma.as<T>()[c] = (keep ? dgamma.as<T>()[c] : T{0}) + static_cast<T>(projected);
    dbeta.as<T>()[c] = (keep ? dbeta.as<T>()[c] : T{0}) + static_cast<T>(sum);
  }
}

}  // namespace dynpipe::ops::reference
