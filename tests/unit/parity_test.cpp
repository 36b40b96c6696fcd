// Parity with PyTorch, over the pipeline.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/golden.hpp"

namespace dynpipe::testing {
namespace {

constexpr double k_tolerance = 1e-10;

struct Layout {
  plan::Schedule schedule;
  std::vector<int> replicas;
};
const std::vector<Layout> k_layouts = {
    {plan::Schedule::gpipe, {1}},          {plan::Schedule::one_f_one_b, {1, 1}},
    {plan::Schedule::gpipe, {1, 1, 1}},    {plan::Schedule::one_f_one_b, {1, 1, 1, 1}},
    {plan::Schedule::one_f_one_b, {2, 1}}, {plan::Schedule::gpipe, {1, 2, 1}},
    {plan::Schedule::one_f_one_b, {3}},    {plan::Schedule::zb_h1, {1, 1, 1}},
    {plan::Schedule::zb_h1, {1, 2, 1}}};

TEST(ParityTest, Float64EqualsPyTorchUnderEverySynchronousPlan) {
  for (const GoldenCase& golden : read_golden_cases()) {
    for (const Layout& layout : k_layouts) {
      const Outcome outcome =
          run_on_threads(golden.with_plan(layout.schedule, layout.replicas), {.seed = 5});
      EXPECT_LE(largest_difference(outcome.losses, golden.losses), k_tolerance)
          << golden.name << " on " << layout.replicas.size() << " stages";
      EXPECT_LE(largest_difference(outcome.state, golden.final_state), k_tolerance)
          << golden.name << " on " << layout.replicas.size() << " stages";
    }
  }
}

// SGD's first step without decay is lr times the gradient: every tensor's gradient, seen from
// outside.
//
// Bounds: in float64 the summation order alone, far below 1e-11. In float32 a value goes through
// about ten layers, forward and backward, each with sums of up to n = 12 x 64 terms whose rounding
// grows like sqrt(n): 10 x 28 x epsilon of the tensor's largest gradient, and the rounding of w - g
// itself.
void expect_first_gradients(const GoldenCase& golden, const std::vector<int>& replicas,
                            tensor::DType dtype, bool onednn) {
  Scenario scenario = golden.with_plan(plan::Schedule::one_f_one_b, replicas);
  scenario.updates = 1;
  scenario.optimizer = {};
  scenario.optimizer.momentum = 0;
  scenario.learning_rate.base = 1;
  scenario.dtype = dtype;
  scenario.onednn = onednn;
  const Outcome outcome = run_on_threads(scenario, {});
  for (const auto& [name, gradient] : golden.first_gradients) {
    const auto& before = scenario.initial.at(name).values;
    const auto& after = outcome.state.at(name).values;
    double largest = 0;
    double weight = 0;
    for (double value : gradient.values) largest = std::max(largest, std::abs(value));
    for (double value : before) weight = std::max(weight, std::abs(value));
    const double bound =
        dtype == tensor::DType::float64 ? 1e-11 : 0x1p-23 * (280 * largest + weight + largest);
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_NEAR(before[i] - after[i], gradient.values[i], bound) << golden.name << " " << name;
    }
  }
}

TEST(ParityTest, FirstGradientsEqualPyTorch) {
  for (const GoldenCase& golden : read_golden_cases()) {
    for (const std::vector<int>& replicas : {std::vector<int>{1, 1}, std::vector<int>{1, 2}}) {
      expect_first_gradients(golden, replicas, tensor::DType::float64, false);
      expect_first_gradients(golden, replicas, tensor::DType::float32, false);
      expect_first_gradients(golden, replicas, tensor::DType::float32, true);
    }
  }
}

// DESIGN: the first loss to 1e-6, later ones within 3 times the distance of PyTorch's own float32
// run from its float64 run (batch norm amplifies rounding). The envelope at update u is the largest
// distance up to u, and never below what one loss is good for.
TEST(ParityTest, Float32StaysWithinPyTorchsOwnEnvelope) {
  for (const bool onednn : {false, true}) {
    for (const GoldenCase& golden : read_golden_cases()) {
      Scenario scenario = golden.with_plan(plan::Schedule::one_f_one_b, {1, 1});
      scenario.dtype = tensor::DType::float32;
      scenario.onednn = onednn;
      const Outcome outcome = run_on_threads(scenario, {});
      ASSERT_EQ(outcome.losses.size(), golden.losses.size());
      EXPECT_NEAR(outcome.losses[0], golden.losses[0], 1e-6 * std::max(1.0, golden.losses[0]));
      double envelope = 1e-6;
      for (std::size_t u = 0; u < golden.losses.size(); ++u) {
        envelope = std::max(envelope, std::abs(golden.losses_float32[u] - golden.losses[u]));
        EXPECT_LE(std::abs(outcome.losses[u] - golden.losses[u]), 3 * envelope)
            << golden.name << ", update " << u << (onednn ? ", onednn" : ", reference");
      }
    }
  }
}

}  // namespace
}  // namespace dynpipe::testing
