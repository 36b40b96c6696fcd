// Ranks on a described machine: real maths on a virtual clock.

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.hpp"
#include "planner/simulator.hpp"
#include "schedule/schedule.hpp"
#include "support/random_scenario.hpp"

namespace dynpipe::testing {
namespace {

/// Steps and messages of random length, a rank and a link that are disturbed for a while, jitter.
DescribedMachine random_machine(const plan::Plan& plan, std::uint64_t seed) {
  const base::Philox random(seed, "machine");
  std::uint64_t drawn = 0;
  const auto between = [&](double low, double high) {
    return low + (high - low) * random.uniform(drawn++);
  };
  DescribedMachine machine;
  machine.cluster = planner::uniform_cluster(plan.ranks(), between(0, 1e-3), between(1e6, 1e8));
  machine.cluster.jitter = seed % 2 == 0 ? 0.1 : 0;
  machine.cluster.events = {
      {planner::Interference::Of::rank, 0, between(0, 2), between(3, 6), between(1, 4)},
      {planner::Interference::Of::link, 0, between(0, 2), between(3, 6), between(1, 4)}};
  for (const plan::Stage& stage : plan.stages) {
    planner::RankWork work;
    work.large = {between(0.01, 0.1), between(0.01, 0.1), between(0.01, 0.1), 50'000};
    work.small = {between(0.01, 0.1), between(0.01, 0.1), between(0.01, 0.1), 40'000};
    work.update_s = between(0, 0.05);
    work.gradient_bytes = 100'000;
    machine.work.ranks.resize(static_cast<std::size_t>(plan.ranks()));
    for (int rank : stage.ranks) machine.work.ranks[static_cast<std::size_t>(rank)] = work;
  }
  machine.work.larger = plan.microbatches / 2;
  return machine;
}

comm::LoopbackOptions slow_messages(std::uint64_t seed) {
  comm::LoopbackOptions options;
  options.seed = seed;
  return options;
}

TEST(EmulateTest, AWorkersTimesAreThoseOfTheSimulator) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Scenario scenario = random_scenario(seed, {.ranks = 6});
    scenario.drains.clear();
    scenario.updates = 12;
    scenario.machine = random_machine(scenario.plan, seed);
    const Outcome outcome = run_on_threads(scenario, slow_messages(seed));

    const planner::SimulatedRun run = planner::simulate(
        scenario.plan, schedule::training_streams(scenario.plan, {0, scenario.updates}),
        scenario.machine->work, scenario.machine->cluster, {.seed = scenario.seed});
    const auto ranks = static_cast<std::size_t>(scenario.plan.ranks());
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      SCOPED_TRACE(describe(scenario) + " seed " + std::to_string(seed));
      const pipeline::StageTimes& times = outcome.times[rank];
      EXPECT_NEAR(times.busy(), run.ranks[rank].busy_s, 1e-9);
      EXPECT_NEAR(times.wait_activation, run.ranks[rank].wait_activation_s, 1e-9);
      EXPECT_NEAR(times.wait_gradient, run.ranks[rank].wait_gradient_s, 1e-9);
      EXPECT_NEAR(times.wait_reduction, run.ranks[rank].wait_reduction_s, 1e-9);
      EXPECT_NEAR(times.total, run.end_s, 1e-9);
      EXPECT_GT(outcome.ends_s[rank], times.total);  // the evaluation takes its time too
    }
  }
}

TEST(EmulateTest, ASegmentThatEndsEarlyTakesItsDescribedTime) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Scenario scenario = random_scenario(seed, {.ranks = 6});
    scenario.drains.clear();
    scenario.machine = random_machine(scenario.plan, seed);
    scenario.stop_asked_at = 2 + static_cast<std::int64_t>(seed % 5);
    const Outcome outcome = run_on_threads(scenario, slow_messages(seed));
    const std::int64_t end = outcome.updates[0];
    if (end == scenario.updates) continue;  // no rank was that far behind

    std::vector<schedule::Stream> streams =
        schedule::training_streams(scenario.plan, {0, scenario.updates});
    for (schedule::Stream& stream : streams) {
      stream = schedule::ended_before(std::move(stream), end, scenario.plan.microbatches);
    }
    const planner::SimulatedRun run =
        planner::simulate(scenario.plan, streams, scenario.machine->work, scenario.machine->cluster,
                          {.seed = scenario.seed});
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      SCOPED_TRACE(describe(scenario) + " seed " + std::to_string(seed));
      EXPECT_NEAR(outcome.times[rank].busy(), run.ranks[rank].busy_s, 1e-9);
      EXPECT_NEAR(outcome.ends_s[rank], run.end_s, 1e-9);
    }
  }
}

TEST(EmulateTest, AVirtualClockChangesNoBit) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Scenario scenario = random_scenario(seed, {.ranks = 5});
    const Outcome real = run_on_threads(scenario, slow_messages(seed));
    scenario.machine = random_machine(scenario.plan, seed);
    const Outcome emulated = run_on_threads(scenario, slow_messages(seed + 1));
    EXPECT_EQ(real.losses, emulated.losses) << describe(scenario);
    EXPECT_EQ(real.evaluations, emulated.evaluations);
    EXPECT_EQ(largest_difference(real.state, emulated.state), 0);
  }
}

TEST(EmulateTest, TimesAreTheSameInEveryRun) {
  Scenario scenario = random_scenario(3, {.ranks = 6});
  scenario.machine = random_machine(scenario.plan, 2);
  const Outcome first = run_on_threads(scenario, slow_messages(1));
  for (std::uint64_t run = 2; run <= 5; ++run) {
    const Outcome again = run_on_threads(scenario, slow_messages(run), run % 2 == 0);
    EXPECT_EQ(first.ends_s, again.ends_s);
    for (std::size_t rank = 0; rank < first.times.size(); ++rank) {
      EXPECT_EQ(first.times[rank].forward, again.times[rank].forward);
      EXPECT_EQ(first.times[rank].backward, again.times[rank].backward);
      EXPECT_EQ(first.times[rank].waiting(), again.times[rank].waiting());
    }
  }
}

TEST(EmulateTest, SegmentsFollowOneAnotherInTheClustersTime) {
  // What disturbs a rank late must not disturb it in every segment.
  Scenario scenario = random_scenario(1, {.ranks = 4});
  scenario.drains.clear();
  scenario.machine = random_machine(scenario.plan, 1);
  scenario.machine->cluster.events.clear();
  const double quiet_s = run_on_threads(scenario, slow_messages(1)).ends_s[0];
  scenario.machine->cluster.events = {
      {planner::Interference::Of::rank, 0, quiet_s + 1, quiet_s + 100, 4}};
  scenario.drains = {scenario.updates / 3, scenario.updates / 2};
  const Outcome undisturbed = run_on_threads(scenario, slow_messages(1));
  scenario.machine->cluster.events[0].start_s = 0;
  const Outcome disturbed = run_on_threads(scenario, slow_messages(1));
  EXPECT_LT(undisturbed.times[0].busy(), 0.5 * disturbed.times[0].busy());
}

}  // namespace
}  // namespace dynpipe::testing
