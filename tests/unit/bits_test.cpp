// What must not change a single bit.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "support/random_scenario.hpp"

namespace dynpipe::testing {
namespace {

Scenario in_float32(Scenario scenario) {
  scenario.dtype = tensor::DType::float32;
  scenario.onednn = true;
  return scenario;
}

void expect_same_bits(const Outcome& a, const Outcome& b, const Scenario& scenario) {
  EXPECT_EQ(a.losses, b.losses) << describe(scenario);
  EXPECT_EQ(a.correct, b.correct) << describe(scenario);
  EXPECT_EQ(largest_difference(a.state, b.state), 0.0) << describe(scenario);
}

TEST(BitsTest, SamePlanAndSeedWhateverTheTiming) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Scenario scenario = in_float32(random_scenario(seed));
    const Outcome calm = run_on_threads(scenario, {.longest_delay_s = 0}, false);
    for (std::uint64_t run = 1; run < 4; ++run) {
      expect_same_bits(run_on_threads(scenario, {.seed = 100 * run + seed}), calm, scenario);
    }
  }
}

TEST(BitsTest, SynchronousWithoutReplicasForAnyNumberOfStages) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Scenario scenario = in_float32(random_scenario(seed));
    const auto schedule = std::array{plan::Schedule::gpipe, plan::Schedule::one_f_one_b,
                                     plan::Schedule::zb_h1}[seed % 3];
    const int microbatches = scenario.plan.microbatches;
    Outcome one_stage;
    for (int stages = 1; stages <= 5; ++stages) {
      scenario.plan = plan::equal_flops_plan(
          scenario.model, {schedule, plan::WeightPolicy::stash, microbatches,
                           std::vector<int>(static_cast<std::size_t>(stages), 1)});
      const Outcome outcome = run_on_threads(scenario, {.seed = seed});
      if (stages == 1) {
        one_stage = outcome;
      } else {
        expect_same_bits(outcome, one_stage, scenario);
      }
    }
  }
}

TEST(BitsTest, ComparingGradientsChangesNothing) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    Scenario scenario = random_scenario(seed);
    if (seed % 2 == 0) scenario = in_float32(scenario);
    const Outcome plain = run_on_threads(scenario, {.seed = seed});
    scenario.compare_gradients_every = 3;
    const Outcome compared = run_on_threads(scenario, {.seed = seed});
    expect_same_bits(compared, plain, scenario);
    EXPECT_TRUE(plain.comparisons.empty());
    // One rank of each stage that has weights, of the same groups.
    const std::vector<double> cosines = pipeline::lag_cosines(compared.comparisons);
    ASSERT_EQ(cosines.size(), 8u) << describe(scenario);
    EXPECT_LE(compared.comparisons.size(), scenario.plan.stages.size());
    for (const double cosine : cosines) {
      EXPECT_LE(std::abs(cosine), 1 + 1e-6) << describe(scenario);
    }
  }
}

// A backward in two parts adds up the same numbers in the same order.
TEST(BitsTest, ZbH1IsOneFOneB) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Scenario scenario = random_scenario(seed);
    if (seed % 2 == 0) scenario = in_float32(scenario);
    scenario.plan.schedule = plan::Schedule::one_f_one_b;
    const Outcome whole = run_on_threads(scenario, {.seed = seed});
    scenario.plan.schedule = plan::Schedule::zb_h1;
    expect_same_bits(run_on_threads(scenario, {.seed = seed}), whole, scenario);
  }
}

// Statistics of batch norm are folded once, losses counted once, dropout draws the same again.
TEST(BitsTest, RecomputingChangesNothing) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Scenario scenario = random_scenario(seed);
    if (seed % 2 == 0) scenario = in_float32(scenario);
    plan::set_recompute(scenario.plan, "none", "");
    const Outcome kept = run_on_threads(scenario, {.seed = seed});
    plan::set_recompute(scenario.plan, "all", "");
    expect_same_bits(run_on_threads(scenario, {.seed = seed}), kept, scenario);
  }
}

TEST(BitsTest, DrainsChangeNothing) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Scenario scenario = in_float32(random_scenario(seed));
    scenario.drains = {};
    const Outcome through = run_on_threads(scenario, {});
    scenario.drains = {1, 4, 5, 11, 19};
    expect_same_bits(run_on_threads(scenario, {}), through, scenario);
  }
}

}  // namespace
}  // namespace dynpipe::testing
