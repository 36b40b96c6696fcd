#include "app/forest_stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/random.hpp"
#include "device/cpu/cpu_device.hpp"
#include "ops/ops.hpp"
#include "pipeline/profiler_rig.hpp"

namespace dynpipe::app {
namespace {

using interference::Bound;
using pipeline::ProfilerRig;

constexpr int k_microbatches = 2;

/// Stages of about equal FLOPs, none beginning with a layer that the one before does.
std::vector<ProfilerRig::Range> cut(const model::Model& model, const nn::Chain& whole, int cuts) {
  double total = 0, passed = 0;
  for (const model::Layer& layer : model.layers) {
    total += static_cast<double>(layer.facts.forward_flops);
  }
  std::vector<ProfilerRig::Range> ranges{{0, 0, 0}};
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const auto flops = static_cast<double>(model.layers[i].facts.forward_flops);
    const double goal = total * static_cast<double>(ranges.size()) / cuts;
    const bool full = i > 0 && passed + flops / 2 >= goal && static_cast<int>(ranges.size()) < cuts;
    if (full && !whole.joined(i)) ranges.push_back({i, i, 0});
    ranges.back().last = i;
    passed += flops;
  }
  return ranges;
}

/// Numbers that look like normalised pictures to the layers behind; written once to each place.
class Inputs {
 public:
  void write(const tensor::Tensor& x) {
    if (!written_.insert(x.data).second) return;
    const auto values = x.as<float>();
    const base::Philox random(1, "forest inputs");
    for (std::int64_t i = 0; i < x.shape.elements(); ++i) {
      values[i] = static_cast<float>(random.normal(static_cast<std::uint64_t>(i)));
    }
  }

 private:
  std::set<const void*> written_;
};

}  // namespace

/// What all stages run on.
struct ForestStages::Machine {
  device::CpuDevice device;
  std::unique_ptr<ops::Ops> ops = ops::make_onednn_ops(1);
  std::unique_ptr<device::Stream> stream = device.make_stream("forest");
  Inputs inputs;
};

/// A stage as it runs.
struct ForestStages::Chain {
  Chain(std::shared_ptr<const model::Model> its_model, const pipeline::LayerProfilerSetup& setup,
        device::Stream& stream, const ProfilerRig::Range& range, tensor::Layout layout)
      : model(std::move(its_model)),
        samples(setup.samples.front()),
        rig(setup, stream, range, layout),
        chain(rig.chain(samples)) {
    for (std::size_t i = range.first; i <= range.last; ++i) {
      bounds.push_back(
          interference::bound_of(interference::work_of(model->layers[i], samples, sizeof(float))));
    }
  }

  pipeline::GroupSeconds run() {
    return rig.run_group(chain, samples, k_microbatches, pipeline::Backwards::whole);
  }

  std::shared_ptr<const model::Model> model;
  std::int64_t samples;
  ProfilerRig rig;
  nn::Chain chain;
  std::vector<Bound> bounds;
};

ForestStages::ForestStages(std::vector<model::Model> models,
                           const std::vector<std::int64_t>& samples, int cuts,
                           const base::Clock& clock)
    : clock_(clock), machine_(std::make_unique<Machine>()) {
  for (model::Model& model : models) {
    const auto shared = std::make_shared<const model::Model>(std::move(model));
    for (const std::int64_t n : samples) add(shared, n, cuts);
  }
}

ForestStages::~ForestStages() = default;

void ForestStages::add(const std::shared_ptr<const model::Model>& model, std::int64_t samples,
                       int cuts) {
  const pipeline::LayerProfilerSetup setup{
      .model = *model,
      .device = machine_->device,
      .ops = *machine_->ops,
      .clock = clock_,
      .optimizer = {},
      .batch = samples * k_microbatches,
      .samples = {samples},
      .write_input = [inputs = &machine_->inputs](const tensor::Tensor& x) { inputs->write(x); },
      .between_layers = {}};
  const nn::Chain whole(model->layers, tensor::Layout::plain, samples, *machine_->ops,
                        nn::layer_types());
  const std::size_t first = chains_.size();
  tensor::Layout layout = tensor::Layout::plain;
  for (const ProfilerRig::Range& range : cut(*model, whole, cuts)) {
    chains_.push_back(std::make_unique<Chain>(model, setup, *machine_->stream, range, layout));
    layout = chains_.back()->chain.output_layout();
    StageDescription stage;
    stage.name = fmt::format("{}[{}-{}] x{}", model->name, range.first, range.last, samples);
    stage.mix = model->name;
    for (std::size_t i = range.first; i <= range.last; ++i) {
      stage.work += interference::work_of(model->layers[i], samples, sizeof(float));
    }
    for (const model::LayerProfile& layer : chains_.back()->rig.facts()) {
      stage.parameter_bytes += static_cast<double>(layer.parameter_bytes);
      stage.activation_bytes += static_cast<double>(samples * layer.kept_bytes);
    }
    stages_.push_back(std::move(stage));
  }
  // What the stages of a model hand each other in training.
  ops::Ops& ops = *machine_->ops;
  for (int kept = 0; kept < ProfilerRig::k_inputs; ++kept) {
    for (std::size_t s = first; s < chains_.size(); ++s) {
      const tensor::Tensor y = chains_[s]->rig.fill_forward(kept);
      if (s + 1 < chains_.size()) {
        ops.reorder(*machine_->stream, y, chains_[s + 1]->rig.input(kept));
      }
    }
    for (std::size_t s = chains_.size(); s-- > first;) {
      const tensor::Tensor dx = chains_[s]->rig.fill_backward(kept);
      if (s > first) {
        ops.reorder(*machine_->stream, dx, chains_[s - 1]->rig.output_gradient(kept));
      }
    }
  }
}

void ForestStages::warm_up(std::size_t stage) {
  chains_[stage]->run();
}

ForestStages::Slice ForestStages::run_warm(std::size_t stage, double seconds) {
  Chain& chain = *chains_[stage];
  Slice slice;
  const double end_s = clock_.now_s() + seconds;
  do {
    const pipeline::GroupSeconds group = chain.run();
    BoundSeconds each;
    for (std::size_t i = 0; i < chain.bounds.size(); ++i) {
      const double s = (group.forward[i] + group.backward[i]) / k_microbatches;
      switch (chain.bounds[i]) {
        case Bound::arithmetic:
          each.arithmetic += s;
          break;
        case Bound::weights:
          each.weights += s;
          break;
        case Bound::activations:
          each.activations += s;
          break;
      }
    }
    slice += Slice{each, each.total() * each.total(), 1};
  } while (clock_.now_s() < end_s);
  return slice;
}

ForestStages::Slice& ForestStages::Slice::operator+=(const Slice& other) {
  seconds.arithmetic += other.seconds.arithmetic;
  seconds.weights += other.seconds.weights;
  seconds.activations += other.seconds.activations;
  squares += other.squares;
  groups += other.groups;
  return *this;
}

BoundSeconds ForestStages::Slice::mean() const {
  return {seconds.arithmetic / groups, seconds.weights / groups, seconds.activations / groups};
}

double ForestStages::Slice::error() const {
  const double mean = seconds.total() / groups;
  return std::sqrt(std::max(0.0, squares / groups - mean * mean) / groups) / mean;
}

}  // namespace dynpipe::app
