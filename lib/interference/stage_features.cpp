#include "interference/stage_features.hpp"

namespace dynpipe::interference {
namespace {

double seconds_of(const model::LayerTimes& times) {
  return times.forward_s + times.backward_input_s + times.backward_weight_s;
}

double element_bytes(const model::Layer& layer, const model::LayerProfile& profile) {
  const auto elements = static_cast<double>(layer.facts.output.elements());
  return elements > 0 ? static_cast<double>(profile.output_bytes) / elements : 4;
}

}  // namespace

LayerWork& LayerWork::operator+=(const LayerWork& other) {
  flops += other.flops;
  weight_bytes += other.weight_bytes;
  activation_bytes += other.activation_bytes;
  return *this;
}

LayerWork work_of(const model::Layer& layer, std::int64_t samples, double element_bytes) {
  constexpr double k_passes = 3;
  const auto n = static_cast<double>(samples);
  const auto elements = static_cast<double>(layer.input.elements() + layer.facts.output.elements() +
                                            layer.facts.activation_elements);
  return {k_passes * n * static_cast<double>(layer.facts.forward_flops),
          k_passes * element_bytes * static_cast<double>(layer.facts.parameter_elements()),
          k_passes * n * element_bytes * elements};
}

Bound bound_of(const LayerWork& work) {
  if (work.flops >= k_arithmetic_flops_per_byte * work.bytes()) return Bound::arithmetic;
  return work.weight_bytes > work.activation_bytes ? Bound::weights : Bound::activations;
}

StageFeatures stage_features(const model::Model& model, const model::Profile& profile, int first,
                             int last, std::int64_t samples) {
  StageFeatures stage;
  for (int i = first; i <= last; ++i) {
    const model::Layer& layer = model.layers[static_cast<std::size_t>(i)];
    const model::LayerProfile& measured = profile.layers[static_cast<std::size_t>(i)];
    const LayerWork work = work_of(layer, samples, element_bytes(layer, measured));
    const double seconds = seconds_of(profile.times(i, samples));
    const Bound bound = bound_of(work);
    stage.work += work;
    stage.seconds += seconds;
    if (bound == Bound::weights) stage.weights_share += seconds;
    if (bound == Bound::activations) stage.activations_share += seconds;
    stage.parameter_bytes += static_cast<double>(measured.parameter_bytes);
    stage.activation_bytes += static_cast<double>(samples * measured.kept_bytes);
  }
  if (stage.seconds > 0) {
    stage.weights_share /= stage.seconds;
    stage.activations_share /= stage.seconds;
  }
  return stage;
}

BoundSlowdowns slowdowns_by_bound(const model::Model& model, const model::Profile& profile,
                                  int first, std::int64_t samples,
                                  std::span<const double> layer_s) {
  double measured[2] = {}, expected[2] = {};
  for (std::size_t i = 0; i < layer_s.size(); ++i) {
    const auto at = static_cast<std::size_t>(first) + i;
    const model::Layer& layer = model.layers[at];
    const LayerWork work = work_of(layer, samples, element_bytes(layer, profile.layers[at]));
    const int of = bound_of(work) == Bound::arithmetic ? 0 : 1;
    measured[of] += layer_s[i];
    expected[of] += seconds_of(profile.times(static_cast<int>(at), samples));
  }
  const double least = k_least_share * (expected[0] + expected[1]);
  const auto slowdown = [&](int of) {
    return expected[of] > least ? measured[of] / expected[of] : base::k_unknown;
  };
  return {slowdown(0), slowdown(1)};
}

}  // namespace dynpipe::interference
