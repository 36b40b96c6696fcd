#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ops/ops.hpp"

namespace dynpipe::nn {

enum class OptimizerKind { sgd, adam, adamw };

/// PyTorch's names and meanings.
struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::sgd;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0.0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;

  /// Tensors of state a parameter has: SGD with momentum one, Adam two.
  int states() const;
};

/// w_new = step of `settings` from w and its gradient; `states` are the parameter's own, updated.
/// `update` counts from 0. w_new may be w.
void optimizer_step(ops::Ops& ops, device::Stream& stream, const OptimizerSettings& settings,
                    double learning_rate, std::int64_t update, const tensor::Tensor& w,
                    const tensor::Tensor& gradient, std::span<const tensor::Tensor> states,
                    const tensor::Tensor& w_new);

/// "sgd", "adam", "adamw". Throws InputError that lists them.
OptimizerKind optimizer_named(std::string_view name);
std::string_view name_of(OptimizerKind kind);

}  // namespace dynpipe::nn
