// The cycle formula against the simulator.
#include "planner/cycle_formula.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/random.hpp"
#include "support/simulated.hpp"
#include "support/stream_times.hpp"

namespace dynpipe::planner {
namespace {

TEST(CycleFormulaTest, IsTheLargestStageWhereTransfersAreFree) {
  const std::vector<double> stage_s = {3, 4, 2};
  const std::vector<double> link_s = {0, 0};
  const std::vector<int> warmups = {2, 1, 0};
  EXPECT_DOUBLE_EQ(cycle_period_s(stage_s, link_s, warmups), 4);
}

TEST(CycleFormulaTest, CountsTransfersOfTheLeastWarmupAndHidesThemInALargerOne) {
  // Eight equal stages, transfers of a third: 8 + 14 / 3 over 8, and nothing with twice the
  // warm-up (DESIGN section 6).
  const std::vector<double> stage_s(8, 1);
  const std::vector<double> link_s(7, 1.0 / 3);
  std::vector<int> warmups;
  for (int s = 0; s < 8; ++s) warmups.push_back(7 - s);
  EXPECT_NEAR(cycle_period_s(stage_s, link_s, warmups), (8 + 14.0 / 3) / 8, 1e-12);
  for (int& warmup : warmups) warmup *= 2;
  EXPECT_DOUBLE_EQ(cycle_period_s(stage_s, link_s, warmups), 1);
}

TEST(CycleFormulaTest, RefusesOtherLengths) {
  EXPECT_THROW(cycle_period_s(std::vector<double>{}, {}, {}), std::logic_error);
  EXPECT_THROW(
      cycle_period_s(std::vector<double>{1, 1}, std::vector<double>{}, std::vector<int>{1, 0}),
      std::logic_error);
}

/// A random pipeline of single ranks. No transfer takes longer than the longest stage.
struct Pipeline {
  explicit Pipeline(std::uint64_t seed) {
    const base::Philox random(seed, "pipeline");
    std::uint64_t draws = 0;
    const auto below = [&](int bound) {
      return static_cast<int>(random.below(draws++, static_cast<std::uint64_t>(bound)));
    };
    const int stages = 2 + below(7);
    plan = testing::straight_plan(plan::Schedule::asynchronous, stages, 1 + below(8));
    int warmup = 0;
    for (int s = stages - 1; s >= 0; --s) {
      costs.push_back({0.5 + random.uniform(draws++), 0.5 + random.uniform(draws++),
                       0.5 + random.uniform(draws++)});
      plan.stages[static_cast<std::size_t>(s)].warmup = warmup;
      warmup += below(3) == 0 ? 2 : 1;
    }
    for (const schedule::StepCosts& stage : costs) stage_s.push_back(stage.microbatch());
    const double longest_s = *std::ranges::max_element(stage_s);
    for (std::size_t s = 0; s + 1 < stage_s.size(); ++s) {
      const double share = random.uniform(draws++);
      link_s.push_back(longest_s * share * share);
    }
    for (const plan::Stage& stage : plan.stages) warmups.push_back(stage.warmup);
  }

  /// Ranks in a row, each link as fast as it is for one message however many there are.
  Cluster cluster() const {
    Cluster row = testing::free_cluster(plan.ranks());
    row.links.clear();
    for (int s = 0; s + 1 < plan.ranks(); ++s) {
      row.links.push_back({"", s, s + 1, link_s[static_cast<std::size_t>(s)],
                           std::numeric_limits<double>::infinity()});
    }
    return row;
  }

  plan::Plan plan;
  std::vector<schedule::StepCosts> costs;
  std::vector<double> stage_s, link_s;
  std::vector<int> warmups;
};

TEST(CycleFormulaTest, IsThePeriodOfSimulatedPipelines) {
  int hidden = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Pipeline pipeline(seed);
    // A whole number of rounds of chains of nearly any length here fits into 840 microbatches.
    const std::int64_t window = 840 / pipeline.plan.microbatches;
    const SimulatedRun result =
        simulate(pipeline.plan, schedule::training_streams(pipeline.plan, {0, 2 * window}),
                 testing::workload_for(pipeline.plan, pipeline.costs), pipeline.cluster());
    const auto last = result.updates_s.size() - 1 - static_cast<std::size_t>(result.draining);
    const double period_s =
        (result.updates_s[last] - result.updates_s[last - static_cast<std::size_t>(window)]) / 840;
    const double expected_s = cycle_period_s(pipeline.stage_s, pipeline.link_s, pipeline.warmups);
    ASSERT_NEAR(period_s, expected_s, 1e-3 * expected_s) << "seed " << seed;
    hidden += expected_s == *std::ranges::max_element(pipeline.stage_s) ? 1 : 0;
  }
  // Both kinds of pipelines were among them.
  EXPECT_GT(hidden, 50);
  EXPECT_LT(hidden, 950);
}

}  // namespace
}  // namespace dynpipe::planner
