#include "pipeline/layer_profiler.hpp"

#include <gtest/gtest.h>

#include "device/cpu/cpu_device.hpp"
#include "nn/layer.hpp"

namespace dynpipe::pipeline {
namespace {

/// Goes on by a second whenever it is looked at: every step that is timed takes one.
class LookedAtClock final : public base::Clock {
 public:
  double now_s() const override { return ++looks_; }

 private:
  mutable double looks_ = 0;
};

constexpr std::string_view k_model = R"({
  "name": "small", "input": [2, 6, 6], "loss": "softmax_cross_entropy", "layers": [
    {"name": "pad", "type": "avgpool", "kernel": 3, "stride": 1, "padding": 1},
    {"name": "conv", "type": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1},
    {"name": "relu", "type": "relu"},
    {"name": "block", "type": "residual",
     "body": [{"name": "conv", "type": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1},
              {"name": "bn", "type": "batchnorm2d"}]},
    {"name": "flatten", "type": "flatten"},
    {"name": "fc", "type": "linear", "out_features": 5}]})";

class LayerProfilerTest : public testing::Test {
 protected:
  LayerProfilerSetup setup(std::vector<std::int64_t> samples, int stages = 1) {
    return {model,
            device,
            *ops,
            clock,
            {},
            8,
            std::move(samples),
            stages,
            0,
            1,
            [this](const tensor::Tensor& x) {
              written.push_back(x.shape[0]);
              for (std::int64_t i = 0; i < x.elements(); ++i) x.as<double>()[i] = 0.25;
            },
            {}};
  }

  model::Model model = model::parse_model(k_model, "small.json", nn::layer_types());
  device::CpuDevice device;
  std::unique_ptr<ops::Ops> ops = ops::make_reference_ops(tensor::DType::float64);
  LookedAtClock clock;
  std::vector<std::int64_t> written;  ///< samples of each microbatch
};

TEST_F(LayerProfilerTest, EveryStepGoesToItsLayer) {
  LayerProfiler profiler(setup({2, 4}));
  profiler.sweep(0);
  const std::vector<model::LayerProfile> layers = profiler.layers();
  ASSERT_EQ(layers.size(), 6u);
  for (std::size_t k = 0; k < 2; ++k) {
    std::vector<double> forward, backward, weight;
    for (const model::LayerProfile& layer : layers) {
      const model::LayerTimes& times = layer.times.at(k);
      forward.push_back(times.forward_s);
      backward.push_back(times.backward_input_s + times.backward_weight_s);
      weight.push_back(times.backward_weight_s);
    }
    // A block is one layer, whatever is in it; the last one has the loss too; before the first
    // weights there is no backward.
    const bool fused = layers[2].joined;
    EXPECT_EQ(forward, (std::vector<double>{1, 1, fused ? 0.0 : 1.0, 1, 1, 2}));
    EXPECT_EQ(backward, (std::vector<double>{0, 1, 1, 1, 1, 1}));
    // Of the layers that have one, half of the backward is its weight part.
    EXPECT_EQ(weight, (std::vector<double>{0, 0.5, 0, 0.5, 0, 0.5}));
  }
  // The weights for backward passes, and the optimizer with the statistics.
  for (const model::LayerProfile& layer : layers) EXPECT_EQ(layer.update_s, 2);
}

TEST_F(LayerProfilerTest, StagesByThemselvesHaveAllLayersOnce) {
  LayerProfiler profiler(setup({4}, 3));
  EXPECT_EQ(profiler.stages(), 3);
  profiler.sweep(0);
  std::vector<std::string> names;
  for (const model::LayerProfile& layer : profiler.layers()) {
    names.push_back(layer.name);
    ASSERT_EQ(layer.times.size(), 1u);
    // A cut never comes before an activation that the layer before does.
    EXPECT_EQ(layer.times[0].forward_s, layer.joined         ? 0
                                        : layer.name == "fc" ? 2
                                                             : 1)
        << layer.name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"pad", "conv", "relu", "block", "flatten", "fc"}));
}

TEST_F(LayerProfilerTest, ThereAreNoMoreStagesThanLayersToBeginThem) {
  LayerProfiler profiler(setup({4}, 40));
  EXPECT_LE(profiler.stages(), 6);
  profiler.sweep(0);
  EXPECT_EQ(profiler.layers().size(), 6u);
}

TEST_F(LayerProfilerTest, RunsWholeGroupsOfEverySize) {
  LayerProfiler profiler(setup({2, 4}));
  written.clear();
  profiler.sweep(0);
  // Of each size two microbatches that warm up, a group, and one whose backwards are split.
  std::vector<std::int64_t> expected(2 + 4 + 4, 2);
  expected.insert(expected.end(), 2 + 2 + 2, 4);
  EXPECT_EQ(written, expected);
  EXPECT_EQ(profiler.groups(), 1);
}

TEST_F(LayerProfilerTest, IsUncertainUntilItHasSeenEnough) {
  LayerProfiler profiler(setup({4}));
  for (int sweeps = 1; sweeps < 5; ++sweeps) {
    profiler.sweep(0);
    EXPECT_EQ(profiler.uncertainty(), 1) << sweeps;
  }
  profiler.sweep(0);
  EXPECT_EQ(profiler.uncertainty(), 0);  // all groups took as long
  EXPECT_EQ(profiler.spread(), 0);
}

TEST_F(LayerProfilerTest, KnowsTheBytesOfLayers) {
  LayerProfiler swept(setup({4}));
  swept.sweep(0);
  const std::vector<model::LayerProfile> layers = swept.layers();
  EXPECT_EQ(layers[1].name, "conv");
  EXPECT_EQ(layers[1].output_bytes, 4 * 36 * 8);
  // 4 x 2 x 3 x 3 weights and 4 biases, each tensor padded to 16 elements.
  EXPECT_EQ(layers[1].parameter_bytes, (80 + 16) * 8);
  EXPECT_EQ(layers[1].state_bytes, layers[1].parameter_bytes);  // SGD with momentum
  EXPECT_GE(layers[1].kept_bytes, layers[1].output_bytes);
  EXPECT_EQ(layers[4].parameter_bytes, 0);
  EXPECT_EQ(layers[5].output_bytes, 5 * 8);
}

}  // namespace
}  // namespace dynpipe::pipeline
