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

ProfilerRig::ProfilerRig(const LayerProfilerSetup& setup, device::Stream& stream,
                         const Range& range, tensor::Layout input_layout)
    : setup_(setup),
      stream_(stream),
      range_(range),
      input_layout_(input_layout),
      largest_(setup.samples.back()),
      largest_chain_(chain(largest_)),
      sample_numbers_(count_of(largest_)) {
  const tensor::DType dtype = setup_.ops.dtype();
  const std::span<const tensor::Layout> layouts(largest_chain_.parameter_layouts());
  const tensor::StateDict initial = nn::initial_state(layers(), setup_.seed);
  nn::Portion portion;
  for (const model::Layer& layer : layers()) {
    portion = nn::Portion{.parameters = layer.facts.parameters.size(),
                          .statistics = layer.facts.statistics.size()}
                  .after(portion);
    portions_.push_back(portion);
    stores_.emplace_back(std::span(&layer, 1),
                         layouts.subspan(portion.first_parameter, portion.parameters), /*delay=*/1,
                         setup_.optimizer, setup_.ops, setup_.device);
    stores_.back().load(setup_.ops, stream_, initial, 0, setup_.model.file);
  }

  const auto allocate = [&](std::size_t bytes) { return setup_.device.allocate(bytes); };
  const nn::FlatLayout parameters = nn::parameter_layout(layers(), layouts);
  const nn::FlatLayout statistics = nn::statistic_layout(layers());
  gradients_memory_ = allocate(count_of(parameters.elements()) * tensor::size_of(dtype));
  gradients_ = parameters.views(gradients_memory_.data(), dtype);
  statistics_memory_ = allocate(count_of(statistics.elements()) * tensor::size_of(dtype));
  statistics_ = statistics.views(statistics_memory_.data(), dtype);
  totals_ = allocate(2 * sizeof(double));

  std::size_t arena = 0, scratch = 0, deferred = 0;
  for (const std::int64_t n : setup_.samples) {
    const nn::Chain sized = chain(n);
    arena = std::max(arena, arena_layout(sized, last(), n, dtype).bytes);
    scratch = std::max(scratch, sized.scratch_bytes());
    deferred = std::max(deferred, sized.deferred_bytes());
  }
  for (int i = 0; i <= range_.ahead; ++i) arenas_.push_back(allocate(arena));
  const std::size_t input_bytes = nn::batch_bytes(largest_chain_.input(), largest_, dtype);
  for (int i = 0; i < k_inputs; ++i) {
    inputs_.push_back(allocate(input_bytes));
    output_gradients_.push_back(
        allocate(last() ? 0 : nn::batch_bytes(largest_chain_.output(), largest_, dtype)));
  }
  input_gradient_ = allocate(first() ? 0 : input_bytes);
  scratch_ = allocate(scratch);
  deferred_ = allocate(deferred);
  std::iota(sample_numbers_.begin(), sample_numbers_.end(), 0);
}

std::span<const model::Layer> ProfilerRig::layers() const {
  return std::span(setup_.model.layers).subspan(range_.first, range_.last - range_.first + 1);
}

nn::Chain ProfilerRig::chain(std::int64_t n) const {
  return {layers(), input_layout_, n, setup_.ops, nn::layer_types()};
}

tensor::Tensor ProfilerRig::input(int kept) const {
  return input_of({largest_chain_, largest_, kept});
}

tensor::Tensor ProfilerRig::output_gradient(int kept) const {
  return output_gradient_of({largest_chain_, largest_, kept});
}

tensor::Tensor ProfilerRig::fill_forward(int kept) {
  LayerSeconds unused(stores_.size());
  if (parameters_.empty()) lay_weights(unused);
  const Flight flight{largest_chain_, largest_, kept};
  forward(flight, unused);
  return largest_chain_.output_in(arena_of(flight), largest_);
}

tensor::Tensor ProfilerRig::fill_backward(int kept) {
  const LayerSeconds none(stores_.size());
  GroupSeconds unused{none, none, none, none, none};
  const Flight flight{largest_chain_, largest_, kept};
  backward(flight, Backwards::whole, unused);
  return input_gradient_of(flight);
}

GroupSeconds ProfilerRig::run_group(const nn::Chain& chain, std::int64_t n, int microbatches,
                                    Backwards backwards) {
  const LayerSeconds none(stores_.size());
  GroupSeconds times{none, none, none, none, none};
  lay_weights(times.update);
  int forwards = 0;
  for (int j = 0; j < microbatches; ++j) {
    for (; forwards < std::min(j + range_.ahead + 1, microbatches); ++forwards) {
      forward({chain, n, forwards}, times.forward);
    }
    backward({chain, n, j}, backwards, times);
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
        store.weights_for_backward(setup_.ops, stream_, store.version_of(store.newest()));
    charge(i);
    append(parameters_, all.parameters);
    append(running_, all.statistics);
    append(backward_parameters_,
           all.backward_parameters.empty() ? all.parameters : all.backward_parameters);
    start(relaying);
  }
}

void ProfilerRig::forward(const Flight& flight, LayerSeconds& times) {
  const Tensor x = input_of(flight);
  start(times);
  if (first()) device::launch(stream_, [this, x] { setup_.write_input(x); });
  flight.chain.forward(pass(flight.n), weights(), x, arena_of(flight));
  if (!last()) return;
  find_loss(flight);
  charge(stores_.size() - 1);
}

void ProfilerRig::find_loss(const Flight& flight) {
  const std::int64_t n = flight.n;
  const ArenaLayout layout = arena_layout(flight.chain, true, n, setup_.ops.dtype());
  const Tensor labels{
      arena_of(flight) + layout.labels, tensor::DType::int32, tensor::Layout::plain, {n}};
  device::launch(stream_, [labels, classes = setup_.model.classes] {
    for (std::int64_t i = 0; i < labels.shape[0]; ++i) {
      labels.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % classes);
    }
  });
  const Tensor totals{totals_.data(), tensor::DType::float64, tensor::Layout::plain, {2}};
  setup_.ops.softmax_cross_entropy(
      stream_, 0, flight.chain.output_in(arena_of(flight), n), labels,
      1.0 / static_cast<double>(setup_.batch),
      flight.microbatch == 0 ? ops::Accumulate::set : ops::Accumulate::add, totals,
      output_gradient_of(flight));
}

void ProfilerRig::backward(const Flight& flight, Backwards backwards, GroupSeconds& times) {
  const nn::Chain& chain = flight.chain;
  const nn::Pass pass = this->pass(flight.n);
  const Tensor x = input_of(flight), dy = output_gradient_of(flight);
  const Tensor dx = input_gradient_of(flight);
  const nn::Gradients into{gradients_,
                           flight.microbatch == 0 ? ops::Accumulate::set : ops::Accumulate::add,
                           statistics_};
  if (backwards == Backwards::whole) {
    start(times.backward);
    chain.backward(pass, weights(), x, dy, arena_of(flight), into, dx);
    return;
  }
  start(times.backward_input);
  chain.backward_input(pass, weights(), x, dy, arena_of(flight), into, dx, deferred_.data());
  start(times.backward_weight);
  chain.backward_weights(pass, x, dy, arena_of(flight), into, deferred_.data());
}

void ProfilerRig::update(int microbatches, LayerSeconds& times) {
  constexpr double k_learning_rate = 0;
  start(times);
  for (std::size_t i = 0; i < stores_.size(); ++i) {
    const nn::Gradients own = portions_[i].of(nn::Gradients{gradients_, {}, statistics_});
    stores_[i].update(setup_.ops, stream_, k_learning_rate, own.parameters);
    for (int j = 0; j < microbatches; ++j) stores_[i].fold(setup_.ops, stream_, own.statistics);
    charge(i);
  }
}

std::vector<model::LayerProfile> ProfilerRig::facts() const {
  const auto element = static_cast<std::int64_t>(tensor::size_of(setup_.ops.dtype()));
  std::vector<model::LayerProfile> facts;
  for (std::size_t i = 0; i < stores_.size(); ++i) {
    const model::Layer& layer = layers()[i];
    model::LayerProfile& fact = facts.emplace_back();
    fact.name = layer.spec.name;
    fact.joined = largest_chain_.joined(i);
    fact.output_bytes = layer.facts.output.elements() * element;
    const auto arena = static_cast<std::int64_t>(largest_chain_.arena_bytes_of(i));
    fact.kept_bytes = (arena + largest_ - 1) / largest_;
    fact.parameter_bytes = stores_[i].parameters().elements() * element;
    fact.state_bytes = fact.parameter_bytes * setup_.optimizer.states();
  }
  return facts;
}

nn::Pass ProfilerRig::pass(std::int64_t n) const {
  return {.ops = setup_.ops,
          .stream = stream_,
          .training = true,
          .seed = setup_.seed,
          .epoch = 0,
          .samples = std::span(sample_numbers_).first(count_of(n)),
          .scratch = nn::Scratch(scratch_.data(), scratch_.bytes()),
          .between_layers = setup_.between_layers ? &setup_.between_layers : nullptr,
          .after_layer = &after_layer_};
}

std::byte* ProfilerRig::arena_of(const Flight& flight) const {
  return arenas_[count_of(flight.microbatch) % arenas_.size()].data();
}

tensor::Tensor ProfilerRig::input_of(const Flight& flight) const {
  return {inputs_[count_of(flight.microbatch % k_inputs)].data(), setup_.ops.dtype(),
          flight.chain.input_layout(), flight.chain.input().with_batch(flight.n)};
}

tensor::Tensor ProfilerRig::output_gradient_of(const Flight& flight) const {
  const tensor::DType dtype = setup_.ops.dtype();
  const base::Shape shape = flight.chain.output().with_batch(flight.n);
  if (!last()) {
    return {output_gradients_[count_of(flight.microbatch % k_inputs)].data(), dtype,
            flight.chain.output_layout(), shape};
  }
  const ArenaLayout layout = arena_layout(flight.chain, true, flight.n, dtype);
  return {arena_of(flight) + layout.loss_gradient, dtype, tensor::Layout::plain, shape};
}

tensor::Tensor ProfilerRig::input_gradient_of(const Flight& flight) const {
  if (first()) return {};
  Tensor gradient = input_of(flight);
  gradient.data = input_gradient_.data();
  return gradient;
}

void ProfilerRig::start(LayerSeconds& into) {
  into_ = &into;
  since_s_ = setup_.clock.now_s();
}

void ProfilerRig::charge(std::size_t layer) {
  if (!stream_.immediate()) {
    const device::Event done = stream_.record();
    while (!done.reached()) std::this_thread::yield();
  }
  const double now_s = setup_.clock.now_s();
  (*into_)[layer] += now_s - since_s_;
  since_s_ = now_s;
}

}  // namespace dynpipe::pipeline
