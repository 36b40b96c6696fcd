#include "planner/workload.hpp"

namespace dynpipe::planner {
namespace {

constexpr std::int64_t k_float32_bytes = 4;

MicrobatchWork microbatch_work(const model::Profile& profile, const plan::Stage& stage,
                               bool last_stage, std::int64_t samples) {
  MicrobatchWork work;
  if (samples == 0) return work;
  for (int layer = stage.first; layer <= stage.last; ++layer) {
    const model::LayerTimes times = profile.times(layer, samples);
    work.forward_s += times.forward_s;
    work.backward_input_s += times.backward_input_s;
    work.backward_weight_s += times.backward_weight_s;
  }
  if (!last_stage) {
    work.output_bytes = samples * profile.layers[static_cast<std::size_t>(stage.last)].output_bytes;
  }
  return work;
}

RankWork stage_work(const model::Profile& profile, const plan::Plan& plan, int s,
                    std::int64_t batch) {
  const plan::Stage& stage = plan.stages[static_cast<std::size_t>(s)];
  const bool last = s + 1 == plan.size();
  const std::int64_t least = batch / plan.microbatches;
  RankWork work;
  work.small = microbatch_work(profile, stage, last, least);
  work.large = microbatch_work(profile, stage, last, least + 1);
  for (int layer = stage.first; layer <= stage.last; ++layer) {
    const model::LayerProfile& of = profile.layers[static_cast<std::size_t>(layer)];
    work.update_s += of.update_s;
    work.gradient_bytes += of.parameter_bytes;
  }
  return work;
}

}  // namespace

Workload workload_of(const model::Profile& profile, const plan::Plan& plan, std::int64_t batch) {
  Workload workload;
  workload.larger = static_cast<int>(batch % plan.microbatches);
  workload.ranks.resize(static_cast<std::size_t>(plan.ranks()));
  for (int s = 0; s < plan.size(); ++s) {
    const RankWork work = stage_work(profile, plan, s, batch);
    for (int rank : plan.stages[static_cast<std::size_t>(s)].ranks) {
      workload.ranks[static_cast<std::size_t>(rank)] = work;
    }
  }
  return workload;
}

model::Profile profile_by_flops(const model::Model& model, double flops_per_s) {
  model::Profile profile;
  profile.model = model.name;
  profile.device = "FLOPs at an assumed rate";
  profile.samples = {1};
  bool trained_before = false;  // nobody needs the gradient of what no parameter has made
  for (const model::Layer& layer : model.layers) {
    model::LayerProfile of;
    of.name = layer.spec.name;
    const double seconds = static_cast<double>(layer.facts.forward_flops) / flops_per_s;
    const std::int64_t parameters = layer.facts.parameter_elements();
    of.times = {{seconds, trained_before ? seconds : 0, parameters > 0 ? seconds : 0}};
    trained_before |= parameters > 0;
    of.output_bytes = k_float32_bytes * layer.facts.output.elements();
    of.kept_bytes = k_float32_bytes * layer.facts.activation_elements;
    of.parameter_bytes = k_float32_bytes * parameters;
    profile.layers.push_back(std::move(of));
  }
  return profile;
}

}  // namespace dynpipe::planner
