#include "pipeline/gradient_lag.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.hpp"
#include "device/cpu/cpu_device.hpp"

namespace dynpipe::pipeline {
namespace {

constexpr int k_lags = GradientLag::k_lags;

/// Gradients of a small layer, each turned by the same angle from the last, in memory whose gaps
/// hold NaN.
class GradientLagTest : public testing::Test {
 protected:
  explicit GradientLagTest(std::int64_t outputs = 7) {
    layout.append("fc", "a", {outputs, 3});
    layout.append("fc", "b", {5});
    memory.assign(static_cast<std::size_t>(layout.elements()),
                  std::numeric_limits<float>::quiet_NaN());
  }

  /// cos(angle) u + sin(angle) v, u and v orthogonal: alternately one and the other.
  void write(double angle, double length = 1) {
    std::size_t n = 0;
    for (const nn::FlatLayout::Entry& entry : layout.entries()) {
      for (std::int64_t i = 0; i < entry.shape.elements(); ++i) {
        memory[static_cast<std::size_t>(entry.offset + i)] =
            static_cast<float>(length * (n++ % 2 == 0 ? std::cos(angle) : std::sin(angle)));
      }
    }
  }
  const std::byte* bytes() const { return reinterpret_cast<const std::byte*>(memory.data()); }
  void take(GradientLag& lag, std::int64_t groups, double turn) {
    for (std::int64_t g = 0; g < groups; ++g) {
      write(turn * static_cast<double>(g));
      lag.take(g, bytes(), *stream);
    }
  }

  nn::FlatLayout layout;
  std::vector<float> memory;
  device::CpuDevice device;
  std::unique_ptr<device::Stream> stream = device.make_stream("test");
};

TEST_F(GradientLagTest, ComparesEveryNthGroupWithThoseBeforeIt) {
  GradientLag lag(layout, tensor::DType::float32, 1, 10);
  take(lag, 25, 0.05);
  ASSERT_EQ(lag.samples().size(), 2u);
  EXPECT_EQ(lag.samples()[0].group, 9);
  EXPECT_EQ(lag.samples()[1].group, 19);
  const std::vector<double> cosines = lag_cosines({lag.samples()});
  ASSERT_EQ(cosines.size(), static_cast<std::size_t>(k_lags));
  for (int l = 1; l <= k_lags; ++l) {
    EXPECT_NEAR(cosines[static_cast<std::size_t>(l - 1)], std::cos(0.05 * l), 1e-6) << l;
  }
}

TEST_F(GradientLagTest, ComparesOftenerThanItsLags) {
  GradientLag lag(layout, tensor::DType::float32, 1, 3);
  take(lag, 15, 0.1);
  // Groups 2 and 5 come before there are as many others as lags.
  ASSERT_EQ(lag.samples().size(), 3u);
  EXPECT_EQ(lag.samples()[0].group, 8);
  EXPECT_EQ(lag.samples()[2].group, 14);
  EXPECT_NEAR(lag_cosines({lag.samples()})[k_lags - 1], std::cos(0.1 * k_lags), 1e-6);
}

TEST_F(GradientLagTest, WithoutAComparisonThereAreNoCosines) {
  GradientLag lag(layout, tensor::DType::float32, 1, 10);
  take(lag, 9, 0.1);
  EXPECT_TRUE(lag.samples().empty());
  EXPECT_TRUE(lag_cosines({lag.samples()}).empty());
  EXPECT_TRUE(lag_cosines({}).empty());
}

TEST_F(GradientLagTest, StagesCountByTheLengthOfTheirGradients) {
  GradientLag still(layout, tensor::DType::float32, 1, 9);
  GradientLag turning(layout, tensor::DType::float32, 1, 9);
  for (std::int64_t g = 0; g < 9; ++g) {
    write(0, 3);
    still.take(g, bytes(), *stream);
    write(0.2 * static_cast<double>(g), 1);
    turning.take(g, bytes(), *stream);
  }
  // u has 13 elements, v has 13: lengths do not change as it turns.
  const double expected = (9 * 1 + std::cos(0.2)) / 10;
  EXPECT_NEAR(lag_cosines({still.samples(), turning.samples()})[0], expected, 1e-6);
}

class LargeGradientLagTest : public GradientLagTest {
 protected:
  LargeGradientLagTest() : GradientLagTest(100'000) {}
};

TEST_F(LargeGradientLagTest, ReadsAPartAndScalesIt) {
  GradientLag lag(layout, tensor::DType::float32, 1, 9);
  const base::Philox random(3, "test");
  std::vector<double> squares;
  for (std::int64_t g = 0; g < 9; ++g) {
    double square = 0;
    for (const nn::FlatLayout::Entry& entry : layout.entries()) {
      for (std::int64_t i = 0; i < entry.shape.elements(); ++i) {
        const auto draw = static_cast<std::uint64_t>(entry.offset + i);
        // The first one again, and a part of its own: cosine 1 / sqrt(2).
        const double value = random.normal(draw) + (g == 8 ? random.normal(draw + 1'000'000) : 0);
        memory[static_cast<std::size_t>(entry.offset + i)] = static_cast<float>(value);
        square += value * value;
      }
    }
    squares.push_back(square);
    lag.take(g, bytes(), *stream);
  }
  const LagSample& sample = lag.samples().at(0);
  EXPECT_NEAR(sample.square / squares[8], 1, 0.02);
  EXPECT_NEAR(sample.squares[0] / squares[7], 1, 0.02);
  EXPECT_NEAR(lag_cosines({lag.samples()})[0], 1 / std::sqrt(2.0), 0.01);
}

}  // namespace
}  // namespace dynpipe::pipeline
