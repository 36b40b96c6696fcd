// The shipped models that torchvision has too: every tensor has the name and the shape that it has
// there, so that weights can be exchanged; and they train.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "nn/layer.hpp"
#include "nn/parameters.hpp"
#include "support/scenario.hpp"

namespace dynpipe::testing {
namespace {

using base::Shape;
using Shapes = std::map<std::string, Shape>;

model::Model shipped(const std::string& name) {
  std::ifstream stream(std::string(DYNPIPE_SOURCE_DIR) + "/models/" + name + ".json");
  std::stringstream text;
  text << stream.rdbuf();
  return model::parse_model(text.str(), name + ".json", nn::layer_types());
}

Shapes shapes_of(const model::Model& model) {
  Shapes shapes;
  for (const model::Layer& layer : model.layers) {
    const auto add = [&](const auto& spec) {
      shapes[layer.spec.name + "." + spec.name] = spec.shape;
    };
    std::ranges::for_each(layer.facts.parameters, add);
    std::ranges::for_each(layer.facts.statistics, add);
  }
  return shapes;
}

/// Written down as torchvision.models builds its networks. Its num_batches_tracked, which only
/// counts, has no counterpart.
struct Expected {
  void conv(const std::string& name, std::int64_t out, std::int64_t in, std::int64_t kernel) {
    shapes[name + ".weight"] = {out, in, kernel, kernel};
  }
  void norm(const std::string& name, std::int64_t channels) {
    for (const char* tensor : {".weight", ".bias", ".running_mean", ".running_var"}) {
      shapes[name + tensor] = {channels};
    }
  }
  void linear(const std::string& name, std::int64_t out, std::int64_t in) {
    shapes[name + ".weight"] = {out, in};
    bias(name, out);
  }
  void bias(const std::string& name, std::int64_t out) { shapes[name + ".bias"] = {out}; }

  Shapes shapes;
};

/// torchvision.models.resnet: BasicBlock, or Bottleneck with its expansion of 4.
Shapes resnet(bool bottleneck, const std::vector<int>& blocks, std::int64_t stem_kernel,
              std::int64_t classes) {
  Expected expected;
  expected.conv("conv1", 64, 3, stem_kernel);
  expected.norm("bn1", 64);
  std::int64_t channels = 64;
  std::int64_t planes = 64;
  for (std::size_t layer = 1; layer <= blocks.size(); ++layer, planes *= 2) {
    const std::int64_t out = bottleneck ? 4 * planes : planes;
    for (int block = 0; block < blocks[layer - 1]; ++block) {
      const std::string name = fmt::format("layer{}.{}.", layer, block);
      const std::vector<std::int64_t> kernels =
          bottleneck ? std::vector<std::int64_t>{1, 3, 1} : std::vector<std::int64_t>{3, 3};
      std::int64_t in = channels;
      for (std::size_t i = 1; i <= kernels.size(); ++i) {
        const std::int64_t width = i == kernels.size() ? out : planes;
        expected.conv(fmt::format("{}conv{}", name, i), width, in, kernels[i - 1]);
        expected.norm(fmt::format("{}bn{}", name, i), width);
        in = width;
      }
      if (channels != out) {
        expected.conv(name + "downsample.0", out, channels, 1);
        expected.norm(name + "downsample.1", out);
      }
      channels = out;
    }
  }
  expected.linear("fc", classes, channels);
  return expected.shapes;
}

/// torchvision.models.vgg: configuration "D"; `pixels` of each channel reach the classifier.
Shapes vgg16(bool with_norm, std::int64_t pixels, std::int64_t hidden, std::int64_t classes) {
  constexpr std::int64_t k_pool = 0;
  const std::vector<std::int64_t> widths = {64,  64,     k_pool, 128,    128, k_pool,
                                            256, 256,    256,    k_pool, 512, 512,
                                            512, k_pool, 512,    512,    512, k_pool};
  Expected expected;
  int index = 0;
  std::int64_t channels = 3;
  for (const std::int64_t width : widths) {
    const auto name = [](int i) { return fmt::format("features.{}", i); };
    if (width != k_pool) {
      expected.conv(name(index), width, channels, 3);
      expected.bias(name(index), width);
      if (with_norm) expected.norm(name(++index), width);
      ++index;  // its relu
      channels = width;
    }
    ++index;
  }
  expected.linear("classifier.0", hidden, pixels * channels);
  expected.linear("classifier.3", hidden, hidden);
  expected.linear("classifier.6", classes, hidden);
  return expected.shapes;
}

void expect_model(const std::string& name, const Shape& input, std::int64_t classes,
                  std::int64_t parameters, const Shapes& shapes) {
  const model::Model model = shipped(name);
  EXPECT_EQ(model.name, name);
  EXPECT_EQ(model.input, input) << name;
  EXPECT_EQ(model.classes, classes) << name;
  std::int64_t elements = 0;
  for (const model::Layer& layer : model.layers) elements += layer.facts.parameter_elements();
  EXPECT_EQ(elements, parameters) << name;
  const Shapes found = shapes_of(model);
  for (const auto& [tensor, shape] : shapes) {
    ASSERT_TRUE(found.contains(tensor)) << name << " lacks " << tensor;
    EXPECT_EQ(found.at(tensor), shape) << name << " " << tensor;
  }
  for (const auto& [tensor, shape] : found) {
    EXPECT_TRUE(shapes.contains(tensor)) << name << " has " << tensor;
  }
}

TEST(ShippedModels, HaveTheTensorsOfTorchvisionsResnets) {
  const Shape cifar{3, 32, 32};
  // torchvision's 11,689,512 with a 3x3 stem of 1,728 instead of 9,408 weights, and 10 classes.
  expect_model("resnet18", cifar, 10, 11'173'962, resnet(false, {2, 2, 2, 2}, 3, 10));
  expect_model("resnet50", cifar, 10, 23'520'842, resnet(true, {3, 4, 6, 3}, 3, 10));
  expect_model("resnet50-imagenet", {3, 224, 224}, 1000, 25'557'032,
               resnet(true, {3, 4, 6, 3}, 7, 1000));
}

TEST(ShippedModels, HaveTheTensorsOfTorchvisionsVggs) {
  const Shape cifar{3, 32, 32};
  expect_model("vgg16", cifar, 10, 15'245'130, vgg16(false, 1, 512, 10));
  expect_model("vgg16_bn", cifar, 10, 15'253'578, vgg16(true, 1, 512, 10));
  expect_model("vgg16-imagenet", {3, 224, 224}, 1000, 138'357'544, vgg16(false, 7 * 7, 4096, 1000));
}

/// Two updates of two microbatches on random images, by the fast backend.
std::vector<double> losses_of(const model::Model& model, const std::vector<int>& replicas) {
  Scenario scenario;
  scenario.model = model;
  scenario.plan = plan::equal_flops_plan(
      model, {plan::Schedule::one_f_one_b, plan::WeightPolicy::stash, 2, replicas});
  scenario.samples = random_samples(model.input, model.classes, 8, 1);
  scenario.group_sizes = {4};
  scenario.updates = 2;
  scenario.learning_rate.base = 0.01;
  scenario.initial = nn::initial_state(model.layers, 1);
  scenario.dtype = tensor::DType::float32;
  scenario.onednn = true;
  return run_on_threads(scenario, {}, false).losses;
}

TEST(ShippedModels, TrainAlikeOnOneStageAndOnTwo) {
  for (const char* name : {"resnet50", "vgg16", "vgg16_bn"}) {
    const model::Model model = shipped(name);
    const std::vector<double> one_stage = losses_of(model, {1});
    ASSERT_EQ(one_stage.size(), 2u) << name;
    EXPECT_TRUE(std::ranges::all_of(one_stage, [](double loss) { return std::isfinite(loss); }))
        << name;
    EXPECT_NE(one_stage[0], one_stage[1]) << name;
    EXPECT_EQ(losses_of(model, {1, 1}), one_stage) << name;
  }
}

}  // namespace
}  // namespace dynpipe::testing
