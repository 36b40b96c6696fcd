#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/model.hpp"
#include "ops/ops.hpp"

namespace dynpipe::nn {

enum class OptimizerKind { sgd, adam, adamw, nadam };

/// PyTorch's names and meanings.
struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::sgd;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0.0;
  bool decay_norms = true;   ///< weight decay of normalisations' scales and shifts
  bool decay_biases = true;  ///< weight decay of the other layers' biases
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double momentum_decay = 4e-3;  ///< of NAdam

  /// Tensors of state a parameter has: SGD with momentum one, the others two.
  int states() const;
};

/// PyTorch's names of the tensors of state, in order: "momentum_buffer"; "exp_avg", "exp_avg_sq".
std::vector<std::string> state_names(const OptimizerSettings& settings);

/// One update of all parameters. What they have in common is computed once.
class OptimizerStep {
 public:
  /// `update` counts from 0. The same numbers give the same step, whatever came before.
  OptimizerStep(const OptimizerSettings& settings, double learning_rate, std::int64_t update);

  /// w_new from w and its gradient; `states` are the parameter's own, updated. w_new may be w.
  void apply(ops::Ops& ops, device::Stream& stream, double weight_decay, const tensor::Tensor& w,
             const tensor::Tensor& gradient, std::span<const tensor::Tensor> states,
             const tensor::Tensor& w_new) const;

 private:
  std::variant<ops::SgdStep, ops::AdamStep, ops::NadamStep> step_;
};

/// Weight decay of each parameter, in the order of `parameter_layout`.
std::vector<double> weight_decays(std::span<const model::Layer> layers,
                                  const OptimizerSettings& settings);

/// "sgd", "adam", "adamw", "nadam". Throws InputError that lists them.
OptimizerKind optimizer_named(std::string_view name);
std::string_view name_of(OptimizerKind kind);

}  // namespace dynpipe::nn
