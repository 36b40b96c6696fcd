#pragma once

#include <cmath>
#include <cstdint>

#include "ops/ops.hpp"

/// Weight updates as PyTorch computes them: https://pytorch.org/docs/stable/optim.html
namespace dynpipe::ops::reference {

template <typename T>
void sgd(const SgdStep& step, const Tensor& w, const Tensor& g, const Tensor& v,
         const Tensor& w_new) {
  const T* weights = w.as<T>();
  const T* gradients = g.as<T>();
  T* velocity = v.as<T>();
  T* out = w_new.as<T>();
  const auto rate = static_cast<T>(step.learning_rate), momentum = static_cast<T>(step.momentum),
             decay = static_cast<T>(step.weight_decay);
  const std::int64_t count = w.elements();
  if (!v) {
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = weights[i] - rate * (gradients[i] + decay * weights[i]);
    }
  } else if (step.nesterov) {
    for (std::int64_t i = 0; i < count; ++i) {
      const T gradient = gradients[i] + decay * weights[i];
      velocity[i] = momentum * velocity[i] + gradient;
      out[i] = weights[i] - rate * (gradient + momentum * velocity[i]);
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      velocity[i] = momentum * velocity[i] + (gradients[i] + decay * weights[i]);
      out[i] = weights[i] - rate * velocity[i];
    }
  }
}

/// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
/// w -= lr m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + epsilon).
/// Weight decay is part of g (Adam), or shrinks w by lr weight_decay beforehand (AdamW).
template <typename T>
void adam(const AdamStep& step, const Tensor& w, const Tensor& g, const Tensor& m, const Tensor& v,
          const Tensor& w_new) {
  const T* weights = w.as<T>();
  const T* gradients = g.as<T>();
  T* first = m.as<T>();
  T* second = v.as<T>();
  T* out = w_new.as<T>();
  const auto updates = static_cast<double>(step.step);
  const double correction1 = 1 - std::pow(step.beta1, updates);
  const double correction2 = 1 - std::pow(step.beta2, updates);
  const auto rate = static_cast<T>(step.learning_rate / correction1);
  const auto root_factor = static_cast<T>(1 / std::sqrt(correction2));
  const auto epsilon = static_cast<T>(step.epsilon);
  const auto beta1 = static_cast<T>(step.beta1), rest1 = static_cast<T>(1 - step.beta1);
  const auto beta2 = static_cast<T>(step.beta2), rest2 = static_cast<T>(1 - step.beta2);
  const auto coupled = static_cast<T>(step.decoupled_decay ? 0 : step.weight_decay);
  const auto shrink =
      static_cast<T>(step.decoupled_decay ? 1 - step.learning_rate * step.weight_decay : 1);
  const std::int64_t count = w.elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const T gradient = gradients[i] + coupled * weights[i];
    first[i] = beta1 * first[i] + rest1 * gradient;
    second[i] = beta2 * second[i] + rest2 * gradient * gradient;
    out[i] = shrink * weights[i] - rate * first[i] / (std::sqrt(second[i]) * root_factor + epsilon);
  }
}

/// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
/// w -= lr ((1 - mu_t) / (1 - mu_1 ... mu_t) g + mu_(t+1) / (1 - mu_1 ... mu_(t+1)) m)
///      / (sqrt(v / (1 - beta2^t)) + epsilon).
/// Weight decay is part of g.
template <typename T>
void nadam(const NadamStep& step, const Tensor& w, const Tensor& g, const Tensor& m,
           const Tensor& v, const Tensor& w_new) {
  const T* weights = w.as<T>();
  const T* gradients = g.as<T>();
  T* first = m.as<T>();
  T* second = v.as<T>();
  T* out = w_new.as<T>();
  const double correction2 = 1 - std::pow(step.beta2, static_cast<double>(step.step));
  const auto gradient_rate =
      static_cast<T>(step.learning_rate * (1 - step.mu) / (1 - step.mu_product));
  const auto first_rate =
      static_cast<T>(step.learning_rate * step.next_mu / (1 - step.mu_product * step.next_mu));
  const auto root_factor = static_cast<T>(1 / std::sqrt(correction2));
  const auto epsilon = static_cast<T>(step.epsilon);
  const auto beta1 = static_cast<T>(step.beta1), rest1 = static_cast<T>(1 - step.beta1);
  const auto beta2 = static_cast<T>(step.beta2), rest2 = static_cast<T>(1 - step.beta2);
  const auto decay = static_cast<T>(step.weight_decay);
  const std::int64_t count = w.elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const T gradient = gradients[i] + decay * weights[i];
    first[i] = beta1 * first[i] + rest1 * gradient;
    second[i] = beta2 * second[i] + rest2 * gradient * gradient;
    out[i] = weights[i] - (gradient_rate * gradient + first_rate * first[i]) /
                              (std::sqrt(second[i]) * root_factor + epsilon);
  }
}

}  // namespace dynpipe::ops::reference
