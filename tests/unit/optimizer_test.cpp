#include "nn/optimizer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "layer_rig.hpp"

namespace dynpipe::nn {
namespace {

TEST(WeightDecays, SpareNormsAndBiasesWhereAsked) {
  const std::vector<model::Layer> layers = described(
      R"([{"name": "conv", "type": "conv2d", "out_channels": 2, "kernel": 1},
          {"name": "block", "type": "residual",
           "body": [{"name": "conv", "type": "conv2d", "out_channels": 2, "kernel": 1},
                    {"name": "bn", "type": "batchnorm2d"}]},
          {"name": "flatten", "type": "flatten"},
          {"name": "fc", "type": "linear", "out_features": 3}])",
      {1, 2, 2});
  OptimizerSettings settings;
  settings.weight_decay = 0.5;
  const auto decays = [&](bool norms, bool biases) {
    settings.decay_norms = norms;
    settings.decay_biases = biases;
    return weight_decays(layers, settings);
  };
  using Decays = std::vector<double>;
  EXPECT_EQ(decays(true, true), (Decays{0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}));
  EXPECT_EQ(decays(false, true), (Decays{0.5, 0.5, 0.5, 0.5, 0, 0, 0.5, 0.5}));
  EXPECT_EQ(decays(true, false), (Decays{0.5, 0, 0.5, 0, 0.5, 0.5, 0.5, 0}));
  EXPECT_EQ(decays(false, false), (Decays{0.5, 0, 0.5, 0, 0, 0, 0.5, 0}));
}

// The step is worked out from the update's number alone; PyTorch multiplies mu up from the first
// update on.
TEST(Nadam, StepOfAnyUpdateIsThatOfAllBefore) {
  OptimizerSettings settings;
  settings.kind = OptimizerKind::nadam;
  settings.beta1 = 0.99;
  const auto mu = [&](std::int64_t t) {
    return 0.99 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * settings.momentum_decay));
  };
  device::CpuDevice device;
  const auto stream = device.make_stream("test");
  const auto ops = ops::make_reference_ops(tensor::DType::float64);
  double product = 1;
  for (std::int64_t update = 0; update < 10'000; ++update) {
    const std::int64_t t = update + 1;
    product *= mu(t);
    if (update > 5 && update % 499 != 0) continue;
    Array w({1}, 1.0), g({1}, 0.5), m({1}, 0.25), v({1}, 0.125), w_new({1});
    const std::vector<Tensor> states{m.tensor(), v.tensor()};
    OptimizerStep(settings, 0.1, update)
        .apply(*ops, *stream, 0.0, w.tensor(), g.tensor(), states, w_new.tensor());
    const double first = 0.99 * 0.25 + (1 - 0.99) * 0.5;
    const double second = 0.999 * 0.125 + (1 - 0.999) * 0.25;
    const double root = std::sqrt(second / (1 - std::pow(0.999, static_cast<double>(t)))) + 1e-8;
    const double step =
        ((1 - mu(t)) / (1 - product) * 0.5 + mu(t + 1) / (1 - product * mu(t + 1)) * first) / root;
    EXPECT_NEAR(w_new.values()[0], 1.0 - 0.1 * step, 1e-14) << update;
  }
}

}  // namespace
}  // namespace dynpipe::nn
