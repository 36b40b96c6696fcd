#include "nn/optimizer.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/errors.hpp"

namespace dynpipe::nn {
namespace {

/// mu_t of NAdam's momentum schedule, t from 1.
double nadam_mu(const OptimizerSettings& settings, std::int64_t t) {
  const double halvings = static_cast<double>(t) * settings.momentum_decay;
  return settings.beta1 * (1 - 0.5 * std::pow(0.96, halvings));
}

/// mu_1 ... mu_t, multiplied in that order.
double nadam_mu_product(const OptimizerSettings& settings, std::int64_t t) {
  constexpr double k_nothing = 0x1.0p-60;  // beside the 1 from which the product is taken
  double product = 1;
  for (std::int64_t i = 1; i <= t && product > k_nothing; ++i) product *= nadam_mu(settings, i);
  return product;
}

template <typename Step>
Step with_decay(Step step, double weight_decay) {
  step.weight_decay = weight_decay;
  return step;
}

}  // namespace

int OptimizerSettings::states() const {
  return static_cast<int>(state_names(*this).size());
}

std::vector<std::string> state_names(const OptimizerSettings& settings) {
  if (settings.kind != OptimizerKind::sgd) return {"exp_avg", "exp_avg_sq"};
  if (settings.momentum == 0.0) return {};
  return {"momentum_buffer"};
}

OptimizerStep::OptimizerStep(const OptimizerSettings& settings, double learning_rate,
                             std::int64_t update) {
  const std::int64_t step = update + 1;
  switch (settings.kind) {
    case OptimizerKind::sgd:
      step_ =
          ops::SgdStep{learning_rate, settings.momentum, settings.weight_decay, settings.nesterov};
      break;
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
      step_ = ops::AdamStep{learning_rate,
                            settings.beta1,
                            settings.beta2,
                            settings.epsilon,
                            settings.weight_decay,
                            settings.kind == OptimizerKind::adamw,
                            step};
      break;
    case OptimizerKind::nadam:
      step_ = ops::NadamStep{learning_rate,
                             settings.beta1,
                             settings.beta2,
                             settings.epsilon,
                             settings.weight_decay,
                             nadam_mu(settings, step),
                             nadam_mu(settings, step + 1),
                             nadam_mu_product(settings, step),
                             step};
      break;
  }
}

void OptimizerStep::apply(ops::Ops& ops, device::Stream& stream, double weight_decay,
                          const tensor::Tensor& w, const tensor::Tensor& gradient,
                          std::span<const tensor::Tensor> states,
                          const tensor::Tensor& w_new) const {
  const auto state = [&](std::size_t i) {
    return i < states.size() ? states[i] : tensor::Tensor{};
  };
  if (const auto* sgd = std::get_if<ops::SgdStep>(&step_)) {
    ops.sgd(stream, with_decay(*sgd, weight_decay), w, gradient, state(0), w_new);
  } else if (const auto* adam = std::get_if<ops::AdamStep>(&step_)) {
    ops.adam(stream, with_decay(*adam, weight_decay), w, gradient, state(0), state(1), w_new);
  } else if (const auto* nadam = std::get_if<ops::NadamStep>(&step_)) {
    ops.nadam(stream, with_decay(*nadam, weight_decay), w, gradient, state(0), state(1), w_new);
  }
}

std::vector<double> weight_decays(std::span<const model::Layer> layers,
                                  const OptimizerSettings& settings) {
  std::vector<double> decays;
  for (const model::Layer& layer : layers) {
    for (const model::ParameterSpec& spec : layer.facts.parameters) {
      const bool spared = (spec.kind == model::ParameterKind::norm && !settings.decay_norms) ||
                          (spec.kind == model::ParameterKind::bias && !settings.decay_biases);
      decays.push_back(spared ? 0.0 : settings.weight_decay);
    }
  }
  return decays;
}

OptimizerKind optimizer_named(std::string_view name) {
  for (OptimizerKind kind :
       {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw, OptimizerKind::nadam}) {
    if (name_of(kind) == name) return kind;
  }
  throw base::InputError("", "--optimizer",
                         fmt::format("'{}' is not known; known are sgd, adam, adamw, nadam", name));
}

std::string_view name_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd:
      return "sgd";
    case OptimizerKind::adam:
      return "adam";
    case OptimizerKind::adamw:
      return "adamw";
    case OptimizerKind::nadam:
      return "nadam";
  }
  return "?";
}

}  // namespace dynpipe::nn
