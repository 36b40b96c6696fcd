#include "nn/optimizer.hpp"

#include <fmt/format.h>

#include "base/errors.hpp"

namespace dynpipe::nn {

int OptimizerSettings::states() const {
  if (kind != OptimizerKind::sgd) return 2;
  return momentum != 0.0 ? 1 : 0;
}

void optimizer_step(ops::Ops& ops, device::Stream& stream, const OptimizerSettings& settings,
                    double learning_rate, std::int64_t update, const tensor::Tensor& w,
                    const tensor::Tensor& gradient, std::span<const tensor::Tensor> states,
                    const tensor::Tensor& w_new) {
  if (settings.kind == OptimizerKind::sgd) {
    const ops::SgdStep step{learning_rate, settings.momentum, settings.weight_decay,
                            settings.nesterov};
    ops.sgd(stream, step, w, gradient, states.empty() ? tensor::Tensor{} : states[0], w_new);
    return;
  }
  const ops::AdamStep step{
      learning_rate,    settings.beta1,        settings.beta2,
      settings.epsilon, settings.weight_decay, settings.kind == OptimizerKind::adamw,
      update + 1};
  ops.adam(stream, step, w, gradient, states[0], states[1], w_new);
}

OptimizerKind optimizer_named(std::string_view name) {
  for (OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw}) {
    if (name_of(kind) == name) return kind;
  }
  throw base::InputError("", "--optimizer",
                         fmt::format("'{}' is not known; known are sgd, adam, adamw", name));
}

std::string_view name_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd:
      return "sgd";
    case OptimizerKind::adam:
      return "adam";
    case OptimizerKind::adamw:
      return "adamw";
  }
  return "?";
}

}  // namespace dynpipe::nn
