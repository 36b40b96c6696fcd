#include "pipeline/profiler_rig.hpp"

#include <algorithm>
#include <numeric>
#include <thread>

#include "pipeline/stage_memory.hpp"

namespace dynpipe::pipeline {
namespace {

std::size_t count_of(std::int64_t number) {
  return static_cast<std::size_t>(number);
}

template <typename View>
void append(std::vector<View>& all, std::span<const View> more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

ProfilerRig::ProfilerRig(const LayerProfilerSetup& setup)
    : setup_(setup),
      stream_(setup.device.make_stream("profile")),
      largest_(setup.samples.back()),
      sample_numbers_(count_of(largest_)) {
  const ops::Ops& ops = setup_.ops;
  const std::vector<model::Layer>& layers = setup_.model.layers;
  const nn::Chain largest = chain(largest_);
  const std::span<const tensor::Layout> layouts(largest.parameter_layouts());
  const tensor::StateDict initial = nn::initial_state(layers, setup_.seed);
  nn::Portion portion;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::span<const model::Layer> layer(&layers[i], 1);
    portion = nn::Portion{.parameters = layers[i].facts.parameters.size(),
                          .statistics = layers[i].facts.statistics.size()}
                  .after(portion);
    portions_.push_back(portion);
    WeightStore& store =
        stores_.emplace_back(layer, layouts.subspan(portion.first_parameter, portion.parameters),
                             /*delay=*/1, setup_.optimizer, ops, setup_.device);
    store.load(setup_.ops, *stream_, initial, 0, setup_.model.file);
  }

  const nn::FlatLayout parameters = nn::parameter_layout(layers, layouts);
  const nn::FlatLayout statistics = nn::statistic_layout(layers);
  const std::size_t element = tensor::size_of(ops.dtype());
  gradients_memory_ = allocate(count_of(parameters.elements()) * element);
  gradients_ = parameters.views(gradients_memory_.data(), ops.dtype());
  statistics_memory_ = allocate(count_of(statistics.elements()) * element);
  statistics_ = statistics.views(statistics_memory_.data(), ops.dtype());
  totals_ = allocate(2 * sizeof(double));

  std::size_t arena = 0, scratch = 0, deferred = 0;
  for (const std::int64_t n : setup_.samples) {
    const nn::Chain sized = chain(n);
    arena = std::max(arena, arena_layout(sized, true, n, ops.dtype()).bytes);
    scratch = std::max(scratch, sized.scratch_bytes());
    deferred = std::max(deferred, sized.deferred_bytes());
  }
  for (device::Buffer& buffer : arenas_) buffer = allocate(arena);
  for (device::Buffer& buffer : inputs_) {
    buffer = allocate(nn::batch_bytes(setup_.model.input, largest_, ops.dtype()));
  }
  scratch_ = allocate(scratch);
  deferred_ = allocate(deferred);
  std::iota(sample_numbers_.begin(), sample_numbers_.end(), 0);
}

nn::Chain ProfilerRig::chain(std::int64_t n) const {
  return {setup_.model.layers, tensor::Layout::plain, n, setup_.ops, nn::layer_types()};
}

GroupSeconds ProfilerRig::run_group(const nn::Chain& chain, std::int64_t n, int microbatches,
                                    Backwards backwards) {
  const LayerSeconds none(stores_.size());
  GroupSeconds times{microbatches, none, none, none, none, none};
  lay_weights(times.update);
  forward(chain, n, 0, times);
  for (int j = 0; j < microbatches; ++j) {
    if (j + 1 < microbatches) forward(chain, n, j + 1, times);
    backward(chain, n, j, backwards, times);
  }
  update(microbatches, times.update);
  return times;
}

void ProfilerRig::lay_weights(LayerSeconds& relaying) {
  for (Views* views : {&parameters_, &running_, &backward_parameters_}) views->clear();
  start(relaying);
  for (std::size_t i = 0; i < stores_.size(); ++i) {
    WeightStore& store = stores_[i];
    const nn::Weights all =
        store.weights_for_backward(setup_.ops, *stream_, store.version_of(store.newest()));
    charge(i);
    append(parameters_, all.parameters);
    append(running_, all.statistics);
    append(backward_parameters_,
           all.backward_parameters.empty() ? all.parameters : all.backward_parameters);
    start(relaying);
  }
}

void ProfilerRig::forward(const nn::Chain& chain, std::int64_t n, int microbatch,
                          GroupSeconds& times) {
  const device::Buffer& arena = arenas_[count_of(microbatch % k_in_flight)];
  const Tensor x = input(n, microbatch);
  start(times.forward);
  device::launch(*stream_, [this, x] { setup_.write_input(x); });
  chain.forward(pass(n), weights(), x, arena.data());

  const ArenaLayout layout = arena_layout(chain, true, n, setup_.ops.dtype());
  const Tensor labels{
      arena.data() + layout.labels, tensor::DType::int32, tensor::Layout::plain, {n}};
  const std::int64_t classes = setup_.model.classes;
  device::launch(*stream_, [labels, classes] {
    for (std::int64_t i = 0; i < labels.shape[0]; ++i) {
      labels.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % classes);
    }
  });
  const Tensor totals{totals_.data(), tensor::DType::float64, tensor::Layout::plain, {2}};
  setup_.ops.softmax_cross_entropy(*stream_, 0, chain.output_in(arena.data(), n), labels,
                                   1.0 / static_cast<double>(setup_.batch),
                                   microbatch == 0 ? ops::Accumulate::set : ops::Accumulate::add,
                                   totals, loss_gradient(chain, n, microbatch));
  charge(stores_.size() - 1);
}

void ProfilerRig::backward(const nn::Chain& chain, std::int64_t n, int microbatch,
                           Backwards backwards, GroupSeconds& times) {
  const Tensor x = input(n, microbatch);
  const Tensor dy = loss_gradient(chain, n, microbatch);
  std::byte* const arena = arenas_[count_of(microbatch % k_in_flight)].data();
  const nn::Gradients into{
      gradients_, microbatch == 0 ? ops::Accumulate::set : ops::Accumulate::add, statistics_};
  if (backwards == Backwards::whole) {
    start(times.backward);
    chain.backward(pass(n), weights(), x, dy, arena, into, {});
    return;
  }
  start(times.backward_input);
  chain.backward_input(pass(n), weights(), x, dy, arena, into, {}, deferred_.data());
  start(times.backward_weight);
  chain.backward_weights(pass(n), x, dy, arena, into, deferred_.data());
}

void ProfilerRig::update(int microbatches, LayerSeconds& times) {
  constexpr double k_learning_rate = 0;
  start(times);
  for (std::size_t i = 0; i < stores_.size(); ++i) {
    const nn::Gradients own = portions_[i].of(nn::Gradients{gradients_, {}, statistics_});
    stores_[i].update(setup_.ops, *stream_, k_learning_rate, own.parameters);
    for (int j = 0; j < microbatches; ++j) stores_[i].fold(setup_.ops, *stream_, own.statistics);
    charge(i);
  }
}

std::vector<model::LayerProfile> ProfilerRig::facts() const {
  const nn::Chain largest = chain(largest_);
  const std::size_t element = tensor::size_of(setup_.ops.dtype());
  std::vector<model::LayerProfile> facts;
  for (std::size_t i = 0; i < stores_.size(); ++i) {
    const model::Layer& layer = setup_.model.layers[i];
    model::LayerProfile& fact = facts.emplace_back();
    fact.name = layer.spec.name;
    fact.joined = largest.joined(i);
    fact.output_bytes = layer.facts.output.elements() * static_cast<std::int64_t>(element);
    const auto arena = static_cast<std::int64_t>(largest.arena_bytes_of(i));
    fact.kept_bytes = (arena + largest_ - 1) / largest_;
    fact.parameter_bytes = stores_[i].parameters().elements() * static_cast<std::int64_t>(element);
    fact.state_bytes = fact.parameter_bytes * setup_.optimizer.states();
  }
  return facts;
}

nn::Pass ProfilerRig::pass(std::int64_t n) const {
  return {.ops = setup_.ops,
          .stream = *stream_,
          .training = true,
          .seed = setup_.seed,
          .epoch = 0,
          .samples = std::span(sample_numbers_).first(count_of(n)),
          .scratch = nn::Scratch(scratch_.data(), scratch_.bytes()),
          .between_layers = setup_.between_layers ? &setup_.between_layers : nullptr,
          .after_layer = &after_layer_};
}

tensor::Tensor ProfilerRig::input(std::int64_t n, int microbatch) const {
  return {inputs_[count_of(microbatch % k_in_flight)].data(), setup_.ops.dtype(),
          tensor::Layout::plain, setup_.model.input.with_batch(n)};
}

tensor::Tensor ProfilerRig::loss_gradient(const nn::Chain& chain, std::int64_t n,
                                          int microbatch) const {
  const ArenaLayout layout = arena_layout(chain, true, n, setup_.ops.dtype());
  return {arenas_[count_of(microbatch % k_in_flight)].data() + layout.loss_gradient,
          setup_.ops.dtype(), tensor::Layout::plain, chain.output().with_batch(n)};
}

device::Buffer ProfilerRig::allocate(std::size_t bytes) const {
  return setup_.device.allocate(bytes);
}

void ProfilerRig::start(LayerSeconds& into) {
  into_ = &into;
  since_s_ = setup_.clock.now_s();
}

void ProfilerRig::charge(std::size_t layer) {
  if (!stream_->immediate()) {
    const device::Event done = stream_->record();
    while (!done.reached()) std::this_thread::yield();
  }
  const double now_s = setup_.clock.now_s();
  (*into_)[layer] += now_s - since_s_;
  since_s_ = now_s;
}

}  // namespace dynpipe::pipeline
