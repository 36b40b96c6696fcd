#include "nn/chain.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "layer_rig.hpp"

namespace dynpipe::nn {
namespace {

using ops::Accumulate;

const std::string k_layers = R"([
  {"name": "pad", "type": "avgpool", "kernel": 3, "stride": 1, "padding": 1},
  {"name": "conv", "type": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1},
  {"name": "bn", "type": "batchnorm2d"},
  {"name": "relu", "type": "relu"},
  {"name": "block", "type": "residual",
   "body": [{"name": "conv", "type": "conv2d", "out_channels": 6, "kernel": 3, "stride": 2,
             "padding": 1},
            {"name": "bn", "type": "batchnorm2d"}],
   "shortcut": [{"name": "down", "type": "conv2d", "out_channels": 6, "kernel": 1, "stride": 2}]},
  {"name": "drop", "type": "dropout", "p": 0.2},
  {"name": "flatten", "type": "flatten"},
  {"name": "fc", "type": "linear", "out_features": 5}])";
const Shape k_input{2, 6, 5};
constexpr std::int64_t k_max_samples = 4;

class ChainTest : public testing::Test {
 protected:
  Pass pass(std::int64_t n, std::vector<double>& memory, std::size_t bytes) {
    return {.ops = *ops,
            .stream = *stream,
            .training = true,
            .seed = 3,
            .epoch = 2,
            .samples = std::span(samples).first(static_cast<std::size_t>(n)),
            .scratch = Scratch(bytes_of(memory), bytes),
            .between_layers = nullptr};
  }

  device::CpuDevice device;
  std::unique_ptr<device::Stream> stream = device.make_stream("test");
  std::unique_ptr<Ops> ops = ops::make_reference_ops(tensor::DType::float64);
  std::vector<std::uint64_t> samples{5, 6, 7, 8};
  std::vector<model::Layer> layers = described(k_layers, k_input);
  Chain chain{layers, Layout::plain, k_max_samples, *ops, layer_types()};
  std::vector<double> arena = poisoned(chain.arena_bytes());
  std::vector<double> scratch = poisoned(chain.scratch_bytes());
};

TEST_F(ChainTest, IsItsLayersOneAfterAnother) {
  for (const std::int64_t n : {std::int64_t{3}, k_max_samples, std::int64_t{1}}) {
    Array x = Array::random(k_input.with_batch(n), "x");
    Array dy = Array::random(chain.output().with_batch(n), "dy");

    Tensors together(layers);
    Array dx(k_input.with_batch(n));
    const Pass chain_pass = pass(n, scratch, chain.scratch_bytes());
    chain.forward(chain_pass, together.weights(), x.tensor(), bytes_of(arena));
    chain.backward(chain_pass, together.weights(), x.tensor(), dy.tensor(), bytes_of(arena),
                   together.gradient_views(), dx.tensor());

    std::vector<std::unique_ptr<Layer>> alone;
    std::vector<Array> activations{x};
    std::vector<std::vector<double>> saved, layer_scratch;
    std::vector<Tensors> tensors;
    const auto layer_pass = [&](std::size_t i) {
      return pass(n, layer_scratch[i], device::aligned(alone[i]->scratch_bytes()));
    };
    for (std::size_t i = 0; i < layers.size(); ++i) {
      alone.push_back(make_layer({layers[i], Layout::plain, n, *ops, layer_types()}));
      saved.push_back(poisoned(alone[i]->saved_bytes()));
      layer_scratch.push_back(poisoned(alone[i]->scratch_bytes()));
      tensors.emplace_back(std::span(layers).subspan(i, 1));
      activations.emplace_back(alone[i]->output().with_batch(n));
      alone[i]->forward(layer_pass(i), tensors[i].weights(), activations[i].tensor(),
                        activations[i + 1].tensor(), bytes_of(saved[i]));
    }
    Array gradient = dy;
    std::size_t parameter = together.parameters.size(), statistic = together.statistics.size();
    for (std::size_t i = layers.size(); i-- > 0;) {
      Array below(alone[i]->input().with_batch(n));
      alone[i]->backward(layer_pass(i), tensors[i].weights(), activations[i].tensor(),
                         activations[i + 1].tensor(), gradient.tensor(), bytes_of(saved[i]),
                         tensors[i].gradient_views(), below.tensor());
      gradient = below;
      parameter -= tensors[i].gradients.size();
      for (std::size_t j = 0; j < tensors[i].gradients.size(); ++j) {
        EXPECT_EQ(together.gradients[parameter + j].values(), tensors[i].gradients[j].values());
      }
      statistic -= tensors[i].statistics.size();
      for (std::size_t j = 0; j < tensors[i].statistics.size(); ++j) {
        EXPECT_EQ(together.statistics[statistic + j].values(), tensors[i].statistics[j].values());
      }
    }
    const Tensor y = chain.output_in(bytes_of(arena), n);
    EXPECT_EQ(std::vector<double>(y.as<double>(), y.as<double>() + y.elements()),
              activations.back().values());
    EXPECT_EQ(dx.values(), gradient.values());
  }
}

TEST_F(ChainTest, FindsTheSameGradientsWithoutDx) {
  const std::int64_t n = 3;
  Array x = Array::random(k_input.with_batch(n), "x");
  Array dy = Array::random(chain.output().with_batch(n), "dy");
  Array dx(k_input.with_batch(n));
  Tensors with(layers), without(layers);
  const Pass p = pass(n, scratch, chain.scratch_bytes());
  chain.forward(p, with.weights(), x.tensor(), bytes_of(arena));
  chain.backward(p, with.weights(), x.tensor(), dy.tensor(), bytes_of(arena), with.gradient_views(),
                 dx.tensor());
  chain.backward(p, without.weights(), x.tensor(), dy.tensor(), bytes_of(arena),
                 without.gradient_views(), Tensor{});
  EXPECT_EQ(without.gradients.values(), with.gradients.values());
  EXPECT_EQ(without.statistics.values(), with.statistics.values());
}

// As zb-h1 runs them: the input parts of several microbatches, then their weight parts.
TEST_F(ChainTest, HasTheSameBitsInTwoPartsWithOtherMicrobatchesInBetween) {
  struct Microbatch {
    Array x, dy, dx;
    std::vector<double> arena, deferred;
  };
  const auto accumulate = [](std::size_t k) { return k == 0 ? Accumulate::set : Accumulate::add; };
  for (const bool want_dx : {true, false}) {
    std::vector<Microbatch> whole, split;
    for (const std::int64_t n : {std::int64_t{3}, std::int64_t{0}, k_max_samples}) {
      const auto name = std::to_string(n);
      whole.push_back({Array::random(k_input.with_batch(n), "x" + name),
                       Array::random(chain.output().with_batch(n), "dy" + name),
                       Array(k_input.with_batch(n), 0.0), poisoned(chain.arena_bytes()),
                       poisoned(chain.deferred_bytes())});
      split.push_back(whole.back());
    }
    Tensors expected(layers), found(layers);
    const auto dx_of = [&](Microbatch& m) { return want_dx ? m.dx.tensor() : Tensor{}; };
    const auto fresh_pass = [&](const Microbatch& m) {
      scratch = poisoned(chain.scratch_bytes());
      return pass(static_cast<std::int64_t>(m.x.values().size()) / k_input.elements(), scratch,
                  chain.scratch_bytes());
    };
    for (std::size_t k = 0; k < whole.size(); ++k) {
      Microbatch& m = whole[k];
      chain.forward(fresh_pass(m), expected.weights(), m.x.tensor(), bytes_of(m.arena));
      chain.backward(fresh_pass(m), expected.weights(), m.x.tensor(), m.dy.tensor(),
                     bytes_of(m.arena), expected.gradient_views(accumulate(k)), dx_of(m));
    }
    for (std::size_t k = 0; k < split.size(); ++k) {
      Microbatch& m = split[k];
      chain.forward(fresh_pass(m), found.weights(), m.x.tensor(), bytes_of(m.arena));
      chain.backward_input(fresh_pass(m), found.weights(), m.x.tensor(), m.dy.tensor(),
                           bytes_of(m.arena), found.gradient_views(accumulate(k)), dx_of(m),
                           bytes_of(m.deferred));
      EXPECT_EQ(m.dx.values(), whole[k].dx.values());
    }
    for (std::size_t k = 0; k < split.size(); ++k) {
      Microbatch& m = split[k];
      chain.backward_weights(fresh_pass(m), m.x.tensor(), m.dy.tensor(), bytes_of(m.arena),
                             found.gradient_views(accumulate(k)), bytes_of(m.deferred));
    }
    EXPECT_EQ(found.gradients.values(), expected.gradients.values());
    EXPECT_EQ(found.statistics.values(), expected.statistics.values());
  }
}

TEST_F(ChainTest, LetsAnEmptyMicrobatchFlowThrough) {
  Array x(k_input.with_batch(0)), dy(chain.output().with_batch(0)), dx(k_input.with_batch(0));
  Tensors tensors(layers);
  tensors.gradients.fill(3.0);
  const Pass p = pass(0, scratch, chain.scratch_bytes());
  chain.forward(p, tensors.weights(), x.tensor(), bytes_of(arena));
  chain.backward(p, tensors.weights(), x.tensor(), dy.tensor(), bytes_of(arena),
                 tensors.gradient_views(Accumulate::add), dx.tensor());
  for (const std::vector<double>& gradient : tensors.gradients.values()) {
    EXPECT_EQ(gradient, std::vector<double>(gradient.size(), 3.0));
  }
}

TEST_F(ChainTest, PollsBetweenItsLayersAndThoseOfBlocks) {
  int polls = 0;
  const std::function<void()> poll = [&polls] { ++polls; };
  const std::int64_t n = 2;
  Array x = Array::random(k_input.with_batch(n), "x");
  Array dy = Array::random(chain.output().with_batch(n), "dy");
  Array dx(k_input.with_batch(n));
  Tensors tensors(layers);
  Pass p = pass(n, scratch, chain.scratch_bytes());
  p.between_layers = &poll;
  const int between = chain.size() - 1 + 1;  // the block's body has two layers
  chain.forward(p, tensors.weights(), x.tensor(), bytes_of(arena));
  EXPECT_EQ(polls, between - 1);  // a relu is done along with the layer before it
  chain.backward(p, tensors.weights(), x.tensor(), dy.tensor(), bytes_of(arena),
                 tensors.gradient_views(), dx.tensor());
  EXPECT_EQ(polls, 2 * between - 1);
}

TEST_F(ChainTest, SaysWhatItTakes) {
  EXPECT_EQ(chain.size(), 8);
  EXPECT_EQ(chain.input(), k_input);
  EXPECT_EQ(chain.output(), (Shape{5}));
  EXPECT_EQ(chain.arena_bytes() % 64, 0u);
  EXPECT_EQ(chain.portion().parameters, 12u);
  EXPECT_EQ(chain.portion().statistics, 4u);
  EXPECT_TRUE(chain.defers());
  const std::size_t conv = 4 * 6 * 5, block = 6 * 3 * 3, block_conv = 6 * 3 * 3;
  const auto bytes = [](std::size_t elements) { return device::aligned(4 * 8 * elements); };
  EXPECT_EQ(chain.deferred_bytes(), bytes(conv) + bytes(block) + bytes(block_conv));
  EXPECT_THROW(Chain({}, Layout::plain, 1, *ops, layer_types()), std::logic_error);
}

/// A float32 tensor in device memory.
class DeviceArray {
 public:
  DeviceArray(const Shape& shape, const std::vector<double>& values) : shape_(shape) {
    std::copy(values.begin(), values.end(), reinterpret_cast<float*>(buffer_.data()));
  }
  DeviceArray(const Shape& shape, const std::string& purpose)
      : DeviceArray(shape, Array::random(shape, purpose).values()) {}

  Tensor tensor() const {
    return {.data = buffer_.data(),
            .dtype = tensor::DType::float32,
            .layout = Layout::plain,
            .shape = shape_};
  }
  void append_to(std::vector<float>& values) const {
    const auto* data = tensor().as<float>();
    values.insert(values.end(), data, data + shape_.elements());
  }

 private:
  Shape shape_;
  device::Buffer buffer_ =
      device::CpuDevice().allocate(static_cast<std::size_t>(shape_.elements()) * sizeof(float));
};

/// dx and all gradients of a chain in float32, plain.
std::vector<float> gradients_by(Ops& ops, const std::vector<model::Layer>& layers, std::int64_t n) {
  device::CpuDevice device;
  const std::unique_ptr<device::Stream> stream = device.make_stream("test");
  const Chain chain(layers, Layout::plain, n, ops, layer_types());
  std::vector<DeviceArray> parameters, gradients;
  std::vector<Tensor> parameter_views, gradient_views;
  for (const model::Layer& layer : layers) {
    for (const model::ParameterSpec& spec : layer.facts.parameters) {
      parameters.emplace_back(spec.shape, layer.spec.name + spec.name);
      gradients.emplace_back(spec.shape, "overwritten");
      parameter_views.push_back(parameters.back().tensor());
      gradient_views.push_back(gradients.back().tensor());
    }
  }
  const DeviceArray x(chain.input().with_batch(n), "x"), dy(chain.output().with_batch(n), "dy");
  const DeviceArray dx(chain.input().with_batch(n), "overwritten");
  const device::Buffer arena = device.allocate(chain.arena_bytes());
  const device::Buffer scratch = device.allocate(chain.scratch_bytes());
  const Pass pass{.ops = ops,
                  .stream = *stream,
                  .training = true,
                  .seed = 3,
                  .epoch = 2,
                  .samples = {},
                  .scratch = Scratch(scratch.data(), chain.scratch_bytes()),
                  .between_layers = nullptr};
  const Weights weights{parameter_views, {}};
  chain.forward(pass, weights, x.tensor(), arena.data());
  chain.backward(pass, weights, x.tensor(), dy.tensor(), arena.data(),
                 {gradient_views, Accumulate::set, {}}, dx.tensor());
  std::vector<float> all;
  dx.append_to(all);
  for (const DeviceArray& gradient : gradients) gradient.append_to(all);
  return all;
}

/// 32 channels are laid out in blocks where a backend does that at all, 6 are not; the input is
/// plain. So both branches of a block may differ in layout from each other, and from what comes
/// after.
TEST(ChainInAnotherLayout, IsTheSameFunction) {
  const std::string rest = R"(
    {"name": "narrow", "type": "conv2d", "out_channels": 6, "kernel": 1},
    {"name": "bn", "type": "batchnorm2d"},
    {"name": "wide", "type": "conv2d", "out_channels": 32, "kernel": 2},
    {"name": "block", "type": "residual",
     "body": [{"name": "conv", "type": "conv2d", "out_channels": 6, "kernel": 3, "padding": 1}],
     "shortcut": [{"name": "down", "type": "conv2d", "out_channels": 6, "kernel": 1}]},
    {"name": "flatten", "type": "flatten"},
    {"name": "fc", "type": "linear", "out_features": 5}])";
  const std::string identity = R"([{"name": "first", "type": "residual", "body": [
    {"name": "conv", "type": "conv2d", "out_channels": 32, "kernel": 3, "padding": 1}]},)";
  const std::string shortcut = R"([{"name": "first", "type": "residual", "body": [
    {"name": "conv", "type": "conv2d", "out_channels": 32, "kernel": 3, "padding": 1}],
    "shortcut": [{"name": "pool", "type": "avgpool", "kernel": 3, "stride": 1, "padding": 1}]},)";
  const std::unique_ptr<Ops> reference = ops::make_reference_ops(tensor::DType::float32);
  const std::unique_ptr<Ops> onednn = ops::make_onednn_ops();
  for (const std::string& first : {identity, shortcut}) {
    const std::vector<model::Layer> layers = described(first + rest, {32, 6, 6});
    const std::vector<float> expected = gradients_by(*reference, layers, 3);
    const std::vector<float> found = gradients_by(*onednn, layers, 3);
    ASSERT_EQ(found.size(), expected.size());
    double square = 0.0, difference = 0.0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      square += std::pow(expected[i], 2);
      difference += std::pow(found[i] - expected[i], 2);
    }
    // Sums of up to 288 products one after another in each of five layers, forth and back.
    EXPECT_LT(std::sqrt(difference / square), 2 * 5 * 288 * 0x1.0p-24);
  }
}

}  // namespace
}  // namespace dynpipe::nn
