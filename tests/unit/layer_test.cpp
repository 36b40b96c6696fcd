#include "nn/layer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include "base/errors.hpp"
#include "layer_rig.hpp"

namespace dynpipe::nn {
namespace {

using ops::Accumulate;

struct Case {
  std::string name;
  std::string fields;  ///< of the layer's JSON object, after the name
  Shape input;
  std::int64_t samples;
};

std::ostream& operator<<(std::ostream& stream, const Case& c) {
  return stream << c.fields;
}

std::vector<std::uint64_t> sample_ids(std::int64_t count) {
  std::vector<std::uint64_t> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), std::uint64_t{40});
  return ids;
}

/// One layer in float64 with all that it needs: memory full of NaN and of exactly the promised
/// sizes.
class Rig {
 public:
  explicit Rig(const Case& c)
      : description_(described(R"([{"name": "layer", )" + c.fields + "}]", c.input)),
        layer_(make_layer({description_[0], Layout::plain, std::max<std::int64_t>(c.samples, 1),
                           *ops_, layer_types()})),
        samples_(sample_ids(c.samples)),
        tensors(description_),
        x(Array::spaced(c.input.with_batch(c.samples), "x")),
        y(layer_->output().with_batch(c.samples)),
        dy(Array::random(layer_->output().with_batch(c.samples), "dy")),
        dx(c.input.with_batch(c.samples)) {}

  Pass pass() {
    return {.ops = *ops_,
            .stream = *stream_,
            .training = training,
            .seed = seed,
            .epoch = epoch,
            .samples = samples_,
            .scratch = Scratch(bytes_of(scratch_), device::aligned(layer_->scratch_bytes())),
            .between_layers = nullptr};
  }
  void forward() {
    layer_->forward(pass(), tensors.weights(), x.tensor(), y.tensor(), bytes_of(saved_));
  }
  void backward(Accumulate accumulate = Accumulate::set, bool want_dx = true) {
    scratch_ = poisoned(layer_->scratch_bytes());
    layer_->backward(pass(), tensors.weights(), x.tensor(), y.tensor(), dy.tensor(),
                     bytes_of(saved_), tensors.gradient_views(accumulate),
                     want_dx ? dx.tensor() : Tensor{});
  }
  /// In two parts; in between everything is overwritten that need not last.
  void backward_split(Accumulate accumulate = Accumulate::set, bool want_dx = true) {
    std::vector<double> deferred = poisoned(layer_->deferred_bytes());
    scratch_ = poisoned(layer_->scratch_bytes());
    layer_->backward_input(pass(), tensors.weights(), x.tensor(), y.tensor(), dy.tensor(),
                           bytes_of(saved_), tensors.gradient_views(accumulate),
                           want_dx ? dx.tensor() : Tensor{}, bytes_of(deferred));
    scratch_ = poisoned(layer_->scratch_bytes());
    y.fill(std::nan(""));
    layer_->backward_weights(pass(), x.tensor(), dy.tensor(), bytes_of(saved_),
                             tensors.gradient_views(accumulate), bytes_of(deferred));
  }
  /// sum dy y, whose gradient is what backward finds.
  double objective() {
    forward();
    return std::inner_product(y.values().begin(), y.values().end(), dy.values().begin(), 0.0);
  }

  const Layer& layer() const { return *layer_; }
  std::vector<std::uint64_t>& samples() { return samples_; }

  bool training = true;
  std::uint64_t seed = 3;
  std::int64_t epoch = 2;

 private:
  device::CpuDevice device_;
  std::unique_ptr<device::Stream> stream_ = device_.make_stream("test");
  std::unique_ptr<Ops> ops_ = ops::make_reference_ops(tensor::DType::float64);
  std::vector<model::Layer> description_;
  std::unique_ptr<Layer> layer_;
  std::vector<double> saved_ = poisoned(layer_->saved_bytes());
  std::vector<double> scratch_ = poisoned(layer_->scratch_bytes());
  std::vector<std::uint64_t> samples_;

 public:
  Tensors tensors;
  Array x, y, dy, dx;
};

/// Derivatives by central differences of fourth order with step h: with f' to f^(5) of the order of
/// the values, truncation costs h^4 and rounding eps / h, both relative to the sum of the terms'
/// magnitudes. h = eps^(1/5) balances the two.
class Differences {
 public:
  explicit Differences(Rig& rig) : rig_(rig) {
    rig.forward();
    double magnitude = 1.0;
    for (std::size_t i = 0; i < rig.y.values().size(); ++i) {
      magnitude += std::abs(rig.dy.values()[i]) * (1.0 + std::abs(rig.y.values()[i]));
    }
    constexpr double k_roundings = 16.0;  // the length of the sums behind a term, as a random walk
    tolerance_ = magnitude * (std::pow(k_step, 4) + k_roundings * k_epsilon / k_step);
  }

  void expect(Array& variable, const std::vector<double>& gradient, const std::string& what) {
    ASSERT_EQ(variable.values().size(), gradient.size()) << what;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      EXPECT_NEAR(gradient[i], derivative(variable.values()[i]), tolerance_)
          << "of " << what << "[" << i << "]";
    }
  }

 private:
  double derivative(double& value) {
    const double centre = value;
    const auto at = [&](double steps) {
      value = centre + steps * k_step;
      return rig_.objective();
    };
    const double slope = (8.0 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12.0 * k_step);
    value = centre;
    return slope;
  }

  static constexpr double k_epsilon = std::numeric_limits<double>::epsilon();
  static constexpr double k_step = 7.4e-4;  // k_epsilon^(1/5)
  Rig& rig_;
  double tolerance_ = 0.0;
};

class LayerGradient : public testing::TestWithParam<Case> {};

TEST_P(LayerGradient, IsThatOfFiniteDifferences) {
  Rig rig(GetParam());
  rig.forward();
  rig.backward();
  const std::vector<std::vector<double>> gradients = rig.tensors.gradients.values();
  const std::vector<double> dx = rig.dx.values();
  Differences differences(rig);
  differences.expect(rig.x, dx, "x");
  for (std::size_t i = 0; i < rig.tensors.parameters.size(); ++i) {
    differences.expect(rig.tensors.parameters[i], gradients[i], "parameter " + std::to_string(i));
  }
}

TEST_P(LayerGradient, AddsToWhatIsThere) {
  Rig rig(GetParam());
  rig.forward();
  rig.backward();
  const std::vector<std::vector<double>> once = rig.tensors.gradients.values();
  rig.tensors.gradients.fill(2.0);
  rig.backward(Accumulate::add);
  for (std::size_t i = 0; i < once.size(); ++i) {
    for (std::size_t j = 0; j < once[i].size(); ++j) {
      // Two sums in another order: a few roundings of numbers of this size.
      EXPECT_NEAR(rig.tensors.gradients[i].values()[j], 2.0 + once[i][j],
                  1e-14 * (2.0 + std::abs(once[i][j])) * 8.0);
    }
  }
}

TEST_P(LayerGradient, IsTheSameWhereNobodyWantsDx) {
  Rig rig(GetParam());
  rig.forward();
  rig.backward();
  const std::vector<std::vector<double>> gradients = rig.tensors.gradients.values();
  const std::vector<double> dy = rig.dy.values();
  rig.tensors.gradients.fill(std::nan(""));
  rig.backward(Accumulate::set, /*want_dx=*/false);
  EXPECT_EQ(rig.tensors.gradients.values(), gradients);
  EXPECT_EQ(rig.dy.values(), dy);
}

TEST_P(LayerGradient, HasTheSameBitsInTwoParts) {
  for (const bool want_dx : {true, false}) {
    for (const Accumulate accumulate : {Accumulate::set, Accumulate::add}) {
      Rig whole(GetParam()), split(GetParam());
      for (Rig* rig : {&whole, &split}) {
        rig->tensors.gradients.fill(accumulate == Accumulate::add ? 2.0 : std::nan(""));
        rig->dx.fill(7.0);
        rig->forward();
      }
      whole.backward(accumulate, want_dx);
      split.backward_split(accumulate, want_dx);
      EXPECT_EQ(split.dx.values(), whole.dx.values());
      EXPECT_EQ(split.tensors.gradients.values(), whole.tensors.gradients.values());
      EXPECT_EQ(split.tensors.statistics.values(), whole.tensors.statistics.values());
    }
  }
}

TEST_P(LayerGradient, OfNoSamplesIsZero) {
  Case empty = GetParam();
  empty.samples = 0;
  Rig rig(empty);
  rig.tensors.statistics.fill(5.0);
  rig.forward();
  rig.tensors.gradients.fill(3.0);
  rig.backward(Accumulate::add);
  for (const std::vector<double>& gradient : rig.tensors.gradients.values()) {
    EXPECT_EQ(gradient, std::vector<double>(gradient.size(), 3.0));
  }
  rig.backward(Accumulate::set);
  for (const std::vector<double>& gradient : rig.tensors.gradients.values()) {
    EXPECT_EQ(gradient, std::vector<double>(gradient.size(), 0.0));
  }
  for (const std::vector<double>& statistic : rig.tensors.statistics.values()) {
    EXPECT_EQ(statistic, std::vector<double>(statistic.size(), 5.0));
  }
}

const std::string k_convolution = R"("type": "conv2d", "out_channels": )";
const std::string k_block =
    R"("type": "residual", "body": [
         {"name": "conv1", "type": "conv2d", "out_channels": 3, "kernel": 3, "padding": 1},
         {"name": "bn1", "type": "batchnorm2d"},
         {"name": "drop", "type": "dropout", "p": 0.25},
         {"name": "conv2", "type": "conv2d", "out_channels": 2, "kernel": 3, "stride": )";

INSTANTIATE_TEST_SUITE_P(
    , LayerGradient,
    testing::Values(
        Case{"conv2d", k_convolution + R"(4, "kernel": 3, "padding": 1)", {3, 5, 4}, 2},
        Case{"conv2d_one_sample", k_convolution + R"(2, "kernel": 3)", {1, 4, 5}, 1},
        Case{"conv2d_uneven",
             k_convolution + R"(3, "kernel": [3, 2], "stride": [2, 1], "padding": [1, 0])",
             {2, 6, 5},
             3},
        Case{"conv2d_strided_past_the_edge",
             k_convolution + R"(2, "kernel": 1, "stride": 2, "bias": false)",
             {3, 4, 6},
             2},
        Case{"batchnorm2d", R"("type": "batchnorm2d")", {3, 4, 5}, 3},
        Case{"batchnorm2d_one_sample", R"("type": "batchnorm2d", "epsilon": 0.1)", {2, 3, 4}, 1},
        Case{"batchnorm2d_one_pixel", R"("type": "batchnorm2d")", {4, 1, 1}, 7},
        Case{"linear", R"("type": "linear", "out_features": 5)", {7}, 3},
        Case{"linear_one_sample", R"("type": "linear", "out_features": 4, "bias": false)", {3}, 1},
        Case{"relu_of_images", R"("type": "relu")", {2, 3, 5}, 3},
        Case{"relu_of_features", R"("type": "relu")", {9}, 2},
        Case{"maxpool", R"("type": "maxpool", "kernel": 2)", {2, 4, 6}, 2},
        Case{"maxpool_overlapping",
             R"("type": "maxpool", "kernel": 3, "stride": 2, "padding": 1)",
             {2, 7, 6},
             2},
        Case{"maxpool_leaving_a_rest",
             R"("type": "maxpool", "kernel": [2, 3], "stride": [3, 2])",
             {2, 7, 6},
             1},
        Case{"avgpool", R"("type": "avgpool", "kernel": [2, 3])", {2, 4, 6}, 2},
        Case{"avgpool_overlapping",
             R"("type": "avgpool", "kernel": 3, "stride": 2, "padding": 1)",
             {2, 7, 6},
             2},
        Case{"global_avgpool", R"("type": "global_avgpool")", {3, 3, 5}, 2},
        Case{"flatten", R"("type": "flatten")", {3, 2, 5}, 2},
        Case{"dropout_of_images", R"("type": "dropout", "p": 0.3)", {2, 4, 3}, 3},
        Case{"dropout_of_features", R"("type": "dropout")", {11}, 2},
        Case{"residual_identity", k_block + R"(1, "padding": 1}])", {2, 5, 4}, 3},
        Case{"residual_shortcut",
             k_block + R"(2, "padding": 1}, {"name": "bn2", "type": "batchnorm2d"}],
               "shortcut": [{"name": "down", "type": "conv2d", "out_channels": 2, "kernel": 1,
                             "stride": 2},
                            {"name": "bn", "type": "batchnorm2d"}])",
             {3, 5, 6},
             2},
        Case{"residual_nested",
             R"("type": "residual", "body": [{"name": "inner", )" + k_block +
                 R"(1, "padding": 1}]}], "shortcut": [{"name": "bn", "type": "batchnorm2d"}])",
             {2, 4, 4},
             1}),
    [](const auto& parameter) { return parameter.param.name; });

TEST(Batchnorm2d, GivesMeanAndUnbiasedVarianceToFold) {
  Rig rig({"", R"("type": "batchnorm2d")", {2, 1, 2}, 2});
  rig.x.values() = {1, 2, -1, -1, 3, 6, 1, 5};  // channel 0: 1 2 3 6; channel 1: -1 -1 1 5
  rig.forward();
  rig.backward();
  EXPECT_EQ(rig.tensors.statistics[0].values(), (std::vector<double>{3.0, 1.0}));
  EXPECT_NEAR(rig.tensors.statistics[1].values()[0], 14.0 / 3.0, 1e-14);
  EXPECT_NEAR(rig.tensors.statistics[1].values()[1], 24.0 / 3.0, 1e-14);
}

TEST(Batchnorm2d, UsesRunningStatisticsInEvaluation) {
  Rig rig({"", R"("type": "batchnorm2d", "epsilon": 0.25)", {1, 1, 1}, 1});
  rig.training = false;
  rig.tensors.parameters[0].values() = {2.0};
  rig.tensors.parameters[1].values() = {0.5};
  rig.tensors.running[0].values() = {1.0};
  rig.tensors.running[1].values() = {3.75};
  rig.x.values() = {5.0};
  rig.forward();
  EXPECT_EQ(rig.y.values(), (std::vector<double>{2.0 * 4.0 / 2.0 + 0.5}));
}

TEST(Batchnorm2d, RefusesToTrainOnOneValuePerChannel) {
  Rig rig({"", R"("type": "batchnorm2d")", {3, 1, 1}, 1});
  try {
    rig.forward();
    FAIL() << "nothing thrown";
  } catch (const base::InputError& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("test.json: layers[0] 'layer': batch normalisation needs more than one "
                           "value per channel"),
              std::string::npos)
        << message;
  }
}

TEST(Dropout, ScalesWhatItKeeps) {
  Rig rig({"", R"("type": "dropout", "p": 0.25)", {1000}, 4});
  rig.x.fill(3.0);
  rig.forward();
  const auto kept = std::count(rig.y.values().begin(), rig.y.values().end(), 4.0);
  const auto dropped = std::count(rig.y.values().begin(), rig.y.values().end(), 0.0);
  EXPECT_EQ(kept + dropped, 4000);
  EXPECT_NEAR(static_cast<double>(kept), 3000.0, 5.0 * std::sqrt(4000 * 0.25 * 0.75));
}

TEST(Dropout, DependsOnSeedEpochAndSampleAlone) {
  const Case two_samples{"", R"("type": "dropout")", {64}, 2};
  const auto dropped = [&](std::uint64_t seed, std::int64_t epoch,
                           const std::vector<std::uint64_t>& samples) {
    Rig rig(two_samples);
    rig.seed = seed;
    rig.epoch = epoch;
    rig.samples() = samples;
    rig.x.fill(1.0);
    rig.forward();
    return rig.y.values();
  };
  const std::vector<double> first = dropped(1, 0, {10, 11});
  EXPECT_EQ(dropped(1, 0, {10, 11}), first);
  EXPECT_NE(dropped(2, 0, {10, 11}), first);
  EXPECT_NE(dropped(1, 1, {10, 11}), first);
  const std::vector<double> swapped = dropped(1, 0, {11, 10});
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 64, swapped.begin() + 64));
  EXPECT_TRUE(std::equal(swapped.begin(), swapped.begin() + 64, first.begin() + 64));
}

TEST(Dropout, ChangesNothingInEvaluation) {
  Rig rig({"", R"("type": "dropout")", {5}, 3});
  rig.training = false;
  rig.forward();
  EXPECT_EQ(rig.y.values(), rig.x.values());
}

TEST(Scratch, IsAlignedAndBounded) {
  std::vector<double> memory(64);
  Scratch scratch(bytes_of(memory), 192);
  std::byte* const first = scratch.take(1);
  EXPECT_EQ(scratch.take(65), first + 64);
  EXPECT_EQ(scratch.take(0), first + 192);
  EXPECT_THROW(scratch.take(1), std::logic_error);
}

TEST(LayerTable, IsWhatModelFilesKnow) {
  EXPECT_EQ(layer_table().size(), layer_types().by_name.size());
  for (const LayerType& type : layer_table()) {
    EXPECT_TRUE(layer_types().by_name.contains(type.name)) << type.name;
  }
}

}  // namespace
}  // namespace dynpipe::nn
