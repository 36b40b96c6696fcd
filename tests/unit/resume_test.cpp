// Snapshots that training goes on from, and segments that end early.
#include <gtest/gtest.h>

#include "schedule/checker.hpp"
#include "support/random_scenario.hpp"

namespace dynpipe::testing {
namespace {

Scenario fast_or_exact(std::uint64_t seed) {
  Scenario scenario = random_scenario(seed);
  if (seed % 2 == 0) {
    scenario.dtype = tensor::DType::float32;
    scenario.onednn = true;
  }
  scenario.drains = {};
  return scenario;
}

std::vector<double> from(const std::vector<double>& values, std::int64_t first) {
  return {values.begin() + static_cast<std::ptrdiff_t>(first), values.end()};
}

TEST(ResumeTest, FromAnyUpdateIsTheSameRun) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Scenario scenario = fast_or_exact(seed);
    const std::int64_t at = 1 + static_cast<std::int64_t>(seed * 7 % 19);
    scenario.snapshot_at = at;
    const Outcome whole = run_on_threads(scenario, {.seed = seed});
    scenario.snapshot_at = -1;
    scenario.resume_from = whole.snapshots;
    const Outcome rest = run_on_threads(scenario, {.seed = seed + 1000});
    EXPECT_EQ(rest.losses, from(whole.losses, at)) << describe(scenario);
    EXPECT_EQ(rest.correct, from(whole.correct, at)) << describe(scenario);
    EXPECT_EQ(rest.evaluations, whole.evaluations) << describe(scenario);
    EXPECT_EQ(largest_difference(rest.state, whole.state), 0.0) << describe(scenario);
  }
}

TEST(ResumeTest, TakingSnapshotsChangesNothing) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Scenario scenario = fast_or_exact(seed);
    const Outcome plain = run_on_threads(scenario, {.seed = seed});
    scenario.snapshot_at = 9;
    const Outcome other = run_on_threads(scenario, {.seed = seed});
    EXPECT_EQ(other.losses, plain.losses) << describe(scenario);
    EXPECT_EQ(largest_difference(other.state, plain.state), 0.0) << describe(scenario);
  }
}

// Every rank stops before the same group, soon, and has what a run of that length has.
TEST(ResumeTest, StopsEarlyOnAllRanksAlike) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Scenario scenario = fast_or_exact(seed);
    scenario.stop_asked_at = 1 + static_cast<std::int64_t>(seed % 9);
    const Outcome stopped = run_on_threads(scenario, {.seed = seed});
    const std::int64_t end = stopped.updates[0];
    for (const std::int64_t updates : stopped.updates) {
      EXPECT_EQ(updates, end) << describe(scenario);
    }
    EXPECT_GE(end, std::min(scenario.updates, scenario.stop_asked_at)) << describe(scenario);
    EXPECT_LE(end, scenario.stop_asked_at + 2 * schedule::lead(scenario.plan) + 2)
        << describe(scenario);
    EXPECT_EQ(static_cast<std::int64_t>(stopped.losses.size()), end) << describe(scenario);

    scenario.stop_asked_at = -1;
    scenario.updates = end;
    const Outcome whole = run_on_threads(scenario, {.seed = seed});
    EXPECT_EQ(stopped.losses, whole.losses) << describe(scenario);
    EXPECT_EQ(largest_difference(stopped.state, whole.state), 0.0) << describe(scenario);
  }
}

// What is left of a segment's streams when it ends early can be executed too.
TEST(ResumeTest, StreamsCutShortPassTheChecker) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const plan::Plan plan = random_scenario(seed).plan;
    const std::int64_t end = 2 + static_cast<std::int64_t>(seed % 5);
    std::vector<schedule::Stream> streams = schedule::training_streams(plan, {0, end + 6});
    for (schedule::Stream& stream : streams) {
      stream = schedule::ended_before(std::move(stream), end, plan.microbatches);
    }
    const auto problem = schedule::find_training_problem(plan, {0, end}, 0, streams);
    EXPECT_FALSE(problem) << seed << ": " << *problem;
  }
}

}  // namespace
}  // namespace dynpipe::testing
