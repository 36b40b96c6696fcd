// The simulator against cases worked out by hand, against schedule::run_times, and against itself
// with other disturbances.
#include "planner/simulator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "planner/timeline.hpp"
#include "support/random_scenario.hpp"
#include "support/simulated.hpp"
#include "support/stream_times.hpp"

namespace dynpipe::planner {
namespace {

using schedule::StepCosts;
using testing::free_cluster;
using testing::straight_plan;
using testing::workload_for;

SimulatedRun run(const plan::Plan& plan, std::int64_t groups, const Workload& work,
                 const Cluster& cluster, bool keep_steps = false, std::uint64_t seed = 1) {
  return simulate(plan, schedule::training_streams(plan, {0, groups}), work, cluster,
                  {seed, keep_steps});
}

/// Two stages of one rank, a forward of 1 s and a backward of 2 s, one microbatch a group.
const std::vector<StepCosts> k_costs(2);
plan::Plan two_stages() {
  return straight_plan(plan::Schedule::asynchronous, 2, 1);
}

TEST(SimulatorTest, RunsTwoStagesAsWorkedOutByHand) {
  // A message takes 0.25 s to the switch and as long from there. Rank 0: F0 0-1, F1 1-2, B0 5-7,
  // B1 8-10. Rank 1: F0 1.5-2.5, B0 2.5-4.5, F1 4.5-5.5, B1 5.5-7.5.
  const double infinite = std::numeric_limits<double>::infinity();
  const SimulatedRun result =
      run(two_stages(), 2, workload_for(two_stages(), k_costs), uniform_cluster(2, 0.25, infinite));
  EXPECT_EQ(result.updates_s, (std::vector<double>{7, 10}));
  EXPECT_EQ(result.end_s, 10);
  EXPECT_EQ(result.ranks[0].busy_s, 6);
  EXPECT_EQ(result.ranks[0].wait_gradient_s, 4);
  EXPECT_EQ(result.ranks[0].wait_activation_s, 0);
  EXPECT_EQ(result.ranks[1].wait_activation_s, 1.5);
  EXPECT_EQ(result.ranks[1].end_s, 7.5);
}

TEST(SimulatorTest, AMessageTakesItsBytesOverTheRate) {
  // 100 bytes at 200 bytes a second: the same as the latency above.
  const SimulatedRun result =
      run(two_stages(), 2, workload_for(two_stages(), k_costs, 100), uniform_cluster(2, 0, 200));
  EXPECT_EQ(result.updates_s, (std::vector<double>{7, 10}));
  EXPECT_EQ(result.links[0].forward_bytes, 200);
  EXPECT_EQ(result.links[0].backward_bytes, 200);
}

TEST(SimulatorTest, AMessageDepartsWhenBothSidesHavePostedIt) {
  // Stage 1 takes long. Rank 0 sends activation 1 at 2; rank 1 has posted it at its start.
  // Activation 2 it sends after B0, and rank 1 posts it as it comes to F1.
  const std::vector<StepCosts> costs = {{1, 0, 0}, {10, 10, 10}};
  const SimulatedRun result =
      run(two_stages(), 3, workload_for(two_stages(), costs), free_cluster(2), true);
  std::vector<std::pair<double, double>> received;
  for (const SimulatedStep& step : result.ranks[1].steps) {
    if (step.instruction.op == schedule::Op::receive) {
      received.emplace_back(step.ready_s, step.start_s);
    }
  }
  EXPECT_EQ(received, (std::vector<std::pair<double, double>>{{0, 1}, {0, 2}, {31, 32}}));
}

TEST(SimulatorTest, MessagesToOneRankShareItsLink) {
  // Two replicas hand over at the same time; each microbatch is a group of two.
  plan::Plan plan;
  plan.schedule = plan::Schedule::gpipe;
  plan.microbatches = 2;
  plan.stages = {{0, 0, {0, 1}, {0, 1}, 1}, {1, 1, {2}, {0, 0}, 0}};
  const std::vector<StepCosts> costs = {{1, 1, 1}, {1, 1, 1}};
  const SimulatedRun result =
      run(plan, 1, workload_for(plan, costs, 100), uniform_cluster(3, 0, 100), true);
  // Both activations are there at 1 + 2; the gradients leave at different times and take 1 s.
  EXPECT_EQ(result.ranks[2].wait_activation_s, 3);
  EXPECT_EQ(result.ranks[2].end_s, 3 + 2 + 4);
  EXPECT_EQ(result.ranks[1].end_s, 3 + 2 + 4 + 1 + 2);
  EXPECT_EQ(result.ranks[0].wait_reduction_s, 2);  // for rank 1, which gets its gradient later
}

TEST(SimulatorTest, ABusyRankPaysForWhatDoesNotOverlap) {
  // Rank 1 computes while activation 1 is under way (2 to 2.5), and pays 0.4 of it at 4.5. It waits
  // for activation 0, and rank 0 for its gradients: those cost nothing more.
  Cluster cluster = uniform_cluster(2, 0, 200, 0.6);
  const SimulatedRun result =
      run(two_stages(), 2, workload_for(two_stages(), k_costs, 100), cluster);
  EXPECT_DOUBLE_EQ(result.ranks[1].end_s, 7.5 + 0.4 * 0.5);
  EXPECT_DOUBLE_EQ(result.ranks[1].wait_activation_s, 1.5 + 0.4 * 0.5);
  EXPECT_DOUBLE_EQ(result.ranks[0].wait_gradient_s, 4 + 0.4 * 0.5);
}

TEST(SimulatorTest, ARankThatNapsStartsWhenItLooks) {
  // Activation 0 is there at 1.5; rank 1 looks at 1, 2, 3, and rank 0 two seconds after it came to
  // wait for gradient 0, and so on.
  Cluster cluster = uniform_cluster(2, 0, 200);
  cluster.waiting = {0, 1, 1};
  const SimulatedRun result =
      run(two_stages(), 2, workload_for(two_stages(), k_costs, 100), cluster);
  // Rank 1: F0 2-3, B0 3-5, F1 5-6, B1 6-8. Rank 0: gradients at 5.5 and 8.5, seen at 6 and 9.
  EXPECT_EQ(result.ranks[1].end_s, 8);
  EXPECT_EQ(result.updates_s, (std::vector<double>{8, 11}));
}

TEST(SimulatorTest, ReplicasExchangeSlicesThenSums) {
  // One stage, two replicas, one microbatch each: both are through at 3. Slices of 50 bytes take
  // 0.5 s and 0.1 s of latency, both ways at once; sums as long again.
  plan::Plan plan;
  plan.schedule = plan::Schedule::one_f_one_b;
  plan.microbatches = 2;
  plan.stages = {{0, 0, {0, 1}, {0, 1}, 0}};
  const std::vector<StepCosts> costs(1);
  Workload work = workload_for(plan, costs, 0, 100);
  for (RankWork& rank : work.ranks) rank.update_s = 0.25;
  const SimulatedRun result = run(plan, 1, work, uniform_cluster(2, 0.05, 100));
  EXPECT_DOUBLE_EQ(result.updates_s[0], 3 + 2 * 0.6 + 0.25);
  EXPECT_DOUBLE_EQ(result.ranks[1].wait_reduction_s, 1.2);
  EXPECT_DOUBLE_EQ(result.ranks[1].busy_s, 3.25);
  EXPECT_DOUBLE_EQ(result.links[0].forward_bytes, 100);
}

TEST(SimulatorTest, ASumWaitsForTheLastReplica) {
  plan::Plan plan;
  plan.schedule = plan::Schedule::one_f_one_b;
  plan.microbatches = 4;
  plan.stages = {{0, 0, {0, 1, 2}, {0, 1, 1, 1}, 0}};  // the third has nothing to do
  const std::vector<StepCosts> costs(1);
  const SimulatedRun result = run(plan, 2, workload_for(plan, costs, 0, 1000), free_cluster(3));
  EXPECT_EQ(result.updates_s, (std::vector<double>{9, 18}));
  EXPECT_EQ(result.ranks[2].wait_reduction_s, 18);
  EXPECT_EQ(result.ranks[0].wait_reduction_s, 12);
}

TEST(SimulatorTest, LargerMicrobatchesComeFirst) {
  plan::Plan plan = straight_plan(plan::Schedule::gpipe, 1, 3);
  Workload work;
  work.larger = 1;
  work.ranks = {{{4, 1, 1, 0}, {1, 1, 1, 0}, 0, 0}};
  const SimulatedRun result = run(plan, 2, work, free_cluster(1), true);
  EXPECT_EQ(result.end_s, 24);
  EXPECT_EQ(result.ranks[0].steps[0].end_s, 4);
  EXPECT_EQ(result.ranks[0].steps[1].end_s, 5);
}

TEST(SimulatorTest, SlowerRanksTakeLonger) {
  Cluster cluster = free_cluster(2);
  cluster.ranks[1].slowdown = 3;
  const SimulatedRun result = run(two_stages(), 2, workload_for(two_stages(), k_costs), cluster);
  EXPECT_EQ(result.ranks[0].busy_s, 6);
  EXPECT_EQ(result.ranks[1].busy_s, 18);
}

TEST(SimulatorTest, EvaluatesToo) {
  const plan::Plan plan = straight_plan(plan::Schedule::asynchronous, 3, 2);
  const std::vector<StepCosts> costs(3);
  const SimulatedRun result = simulate(plan, schedule::evaluation_streams(plan, 4),
                                       workload_for(plan, costs), free_cluster(3));
  EXPECT_EQ(result.end_s, 3 + 4 - 1);
  EXPECT_TRUE(result.updates_s.empty());
  EXPECT_EQ(result.period_s(), 0);
}

TEST(SimulatorTest, EqualsRunTimesWhereMessagesAreFree) {
  const model::Model model = testing::small_model();
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const plan::Plan plan = testing::random_plan(model, seed);
    std::vector<StepCosts> costs;
    const base::Philox random(seed, "costs");
    for (std::uint64_t s = 0; s < plan.stages.size(); ++s) {
      costs.push_back(
          {random.uniform(3 * s), random.uniform(3 * s + 1), random.uniform(3 * s + 2)});
    }
    const auto streams = schedule::training_streams(plan, schedule::steady_segment(plan));
    const auto expected = schedule::run_times(plan, streams, costs);
    const SimulatedRun result =
        simulate(plan, streams, workload_for(plan, costs, 1000, 1000), free_cluster(plan.ranks()));
    for (std::size_t rank = 0; rank < expected.size(); ++rank) {
      ASSERT_EQ(result.ranks[rank].end_s, expected[rank].end) << "seed " << seed;
      ASSERT_NEAR(result.ranks[rank].busy_s, expected[rank].busy, 1e-9) << "seed " << seed;
    }
  }
}

void expect_equal_steps(const SimulatedRun& a, const SimulatedRun& b, double before_s,
                        std::uint64_t seed) {
  for (std::size_t rank = 0; rank < a.ranks.size(); ++rank) {
    const auto& steps = a.ranks[rank].steps;
    const auto& others = b.ranks[rank].steps;
    ASSERT_EQ(steps.size(), others.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i].end_s >= before_s) continue;
      ASSERT_EQ(steps[i].ready_s, others[i].ready_s) << "seed " << seed;
      ASSERT_EQ(steps[i].start_s, others[i].start_s) << "seed " << seed;
      ASSERT_EQ(steps[i].end_s, others[i].end_s) << "seed " << seed;
    }
  }
}

/// A cluster of slow links, unequal ranks and jitter.
Cluster uneven_cluster(int ranks) {
  Cluster cluster = uniform_cluster(ranks, 0.05, 1000, 0.5);
  for (int rank = 0; rank < ranks; ++rank) {
    cluster.ranks[static_cast<std::size_t>(rank)].slowdown = 1 + 0.2 * (rank % 3);
    cluster.links[static_cast<std::size_t>(rank)].full_duplex = rank % 2 == 0;
  }
  cluster.jitter = 0.1;
  return cluster;
}

TEST(SimulatorTest, GivesTheSameNumbersEveryTime) {
  const model::Model model = testing::small_model();
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const plan::Plan plan = testing::random_plan(model, seed);
    const std::vector<StepCosts> costs(plan.stages.size());
    const Workload work = workload_for(plan, costs, 700, 5000);
    const Cluster cluster = uneven_cluster(plan.ranks());
    const SimulatedRun once = run(plan, 6, work, cluster, true, seed);
    const SimulatedRun again = run(plan, 6, work, cluster, true, seed);
    expect_equal_steps(once, again, once.end_s + 1, seed);
    EXPECT_EQ(once.updates_s, again.updates_s);
  }
}

TEST(SimulatorTest, DisturbancesChangeNothingBeforeTheyBegin) {
  const model::Model model = testing::small_model();
  int later = 0;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const plan::Plan plan = testing::random_plan(model, seed);
    const std::vector<StepCosts> costs(plan.stages.size());
    const Workload work = workload_for(plan, costs, 700, 5000);
    Cluster cluster = uneven_cluster(plan.ranks());
    const SimulatedRun calm = run(plan, 6, work, cluster, true);
    const double onset_s = calm.end_s / 2;
    for (int i = 0; i < plan.ranks(); ++i) {
      cluster.events.push_back({Interference::Of::rank, i, onset_s, 2 * onset_s, 2});
      cluster.events.push_back({Interference::Of::link, i, onset_s, 2 * onset_s, 3});
    }
    const SimulatedRun disturbed = run(plan, 6, work, cluster, true);
    expect_equal_steps(calm, disturbed, onset_s, seed);
    later += disturbed.end_s > calm.end_s * 1.2 ? 1 : 0;
  }
  EXPECT_EQ(later, 50);
}

TEST(SimulatorTest, InterferenceStretchesStepsWhileItLasts) {
  // 12 s of work; from 2 to 6 s a quarter of the speed, from 6 to 8 half of it.
  const plan::Plan plan = straight_plan(plan::Schedule::gpipe, 1, 4);
  const std::vector<StepCosts> costs(1);
  Cluster cluster = free_cluster(1);
  cluster.events = {{Interference::Of::rank, 0, 6, 8, 2}, {Interference::Of::rank, 0, 2, 6, 4}};
  const SimulatedRun result = run(plan, 1, workload_for(plan, costs), cluster);
  EXPECT_DOUBLE_EQ(result.end_s, 12 + 3 + 1);
  EXPECT_DOUBLE_EQ(result.ranks[0].busy_s, 16);
}

TEST(SimulatorTest, InterferenceOfALinkStretchesLatencyAndBytes) {
  // Activation 0 departs at 1: undisturbed it has 0.5 s of latency and 1 s of bytes. The first link
  // is three times slower from 1.2 on: 0.2 + 3 * 0.05 there, 0.25 on the other, then 3 s.
  const std::vector<StepCosts> costs = {{1, 0, 0}, {1, 0, 0}};
  Cluster cluster = uniform_cluster(2, 0.25, 100);
  cluster.events = {{Interference::Of::link, 0, 1.2, 100, 3}};
  const plan::Plan plan = straight_plan(plan::Schedule::gpipe, 2, 1);
  EXPECT_DOUBLE_EQ(run(plan, 1, workload_for(plan, costs, 100), cluster).ranks[1].end_s,
                   1.35 + 0.25 + 3 + 1);
  // It ends while bytes flow: a third of 0.9 s of them are through at 2.5.
  cluster.events[0].end_s = 2.5;
  EXPECT_DOUBLE_EQ(run(plan, 1, workload_for(plan, costs, 100), cluster).ranks[1].end_s,
                   2.5 + 0.7 + 1);
}

TEST(TimelineTest, IntegratesSpeedFromAnyStart) {
  const std::vector<Interference> events = {{Interference::Of::rank, 0, 1, 2, 4},
                                            {Interference::Of::rank, 0, 3, 5, 2},
                                            {Interference::Of::rank, 1, 0, 9, 9}};
  const Timeline timeline(events, Interference::Of::rank, 0);
  const auto speed = [](double t) { return t >= 1 && t < 2 ? 0.25 : t >= 3 && t < 5 ? 0.5 : 1; };
  for (double start = 0; start < 6; start += 0.25) {
    for (double work = 0; work < 5; work += 0.125) {
      double done = 0;
      double t = start;
      for (; done < work - 1e-9; t += 1.0 / 1024) done += speed(t) / 1024;
      EXPECT_NEAR(timeline.end_s(start, work), t, 0.005) << start << " " << work;
    }
  }
}

TEST(SimulatorTest, JitterHasTheDeviationAskedForAndBelongsToTheStep) {
  const plan::Plan plan = straight_plan(plan::Schedule::asynchronous, 2, 4);
  const std::vector<StepCosts> costs(2);
  Cluster cluster = free_cluster(2);
  cluster.jitter = 0.2;
  const auto of = [&](std::int64_t groups, std::uint64_t seed) {
    return run(plan, groups, workload_for(plan, costs), cluster, true, seed).ranks[1].steps;
  };
  const auto steps = of(2000, 1);
  double sum = 0, squares = 0;
  int count = 0;
  for (const SimulatedStep& step : steps) {
    if (step.instruction.op != schedule::Op::forward) continue;
    const double taken_s = step.end_s - step.start_s;
    ASSERT_GT(taken_s, 0);
    sum += taken_s;
    squares += taken_s * taken_s;
    ++count;
  }
  const double mean = sum / count;
  EXPECT_NEAR(mean, 1, 0.01);
  EXPECT_NEAR(std::sqrt(squares / count - mean * mean), 0.2, 0.01);

  // A shorter run draws the same numbers, another seed others.
  const auto duration = [](const SimulatedStep& step) { return step.end_s - step.start_s; };
  const auto few = of(2, 1);
  const auto other = of(2, 2);
  const auto first = std::ranges::find(few, schedule::Op::forward,
                                       [](const SimulatedStep& s) { return s.instruction.op; });
  const auto at = static_cast<std::size_t>(first - few.begin());
  EXPECT_NEAR(duration(few[at]), duration(steps[at]), 1e-12);
  EXPECT_NE(duration(few[at]), duration(other[at]));
}

TEST(SimulatorTest, CarriesAllBytesOverEveryLinkOfTheWay) {
  const plan::Plan plan = straight_plan(plan::Schedule::asynchronous, 3, 2);
  const std::vector<StepCosts> costs(3);
  const SimulatedRun result = run(plan, 5, workload_for(plan, costs, 33), uneven_cluster(3));
  EXPECT_EQ(result.links[0].forward_bytes, 330);      // activations up
  EXPECT_EQ(result.links[0].backward_bytes, 330);     // gradients down
  EXPECT_EQ(result.links[1].forward_bytes, 2 * 660);  // half-duplex: all of it
  EXPECT_EQ(result.links[1].backward_bytes, 0);
}

TEST(SimulatorTest, RefusesStreamsThatBlock) {
  const plan::Plan plan = two_stages();
  auto streams = schedule::training_streams(plan, {0, 2});
  std::erase_if(streams[0], [](const schedule::Instruction& step) {
    return step.op == schedule::Op::send && step.index == 1;
  });
  try {
    simulate(plan, streams, workload_for(plan, k_costs), free_cluster(2));
    FAIL() << "nothing was thrown";
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "the streams block: rank 0 at 'backward 1'");
  }
  EXPECT_THROW(simulate(plan, streams, workload_for(plan, k_costs), free_cluster(1)),
               std::logic_error);
}

TEST(SimulatorTest, TwoReplicasBetweenSingleRanksNeedWarmupsOf4And2) {
  // DESIGN section 4: the least that keeps all four ranks busy.
  plan::Plan plan;
  plan.microbatches = 4;
  plan.stages = {
      {0, 0, {0}, {0, 0, 0, 0}, 0}, {1, 1, {1, 2}, {0, 1, 0, 1}, 0}, {2, 2, {3}, {0, 0, 0, 0}, 0}};
  const std::vector<StepCosts> costs = {{1, 1, 1}, {2, 2, 2}, {1, 1, 1}};
  std::vector<std::pair<int, int>> full;
  for (int first = 2; first <= 5; ++first) {
    for (int second = 1; second <= first; ++second) {
      plan.stages[0].warmup = first;
      plan.stages[1].warmup = second;
      const double period_s = run(plan, 200, workload_for(plan, costs), free_cluster(4)).period_s();
      EXPECT_GE(period_s, 12 - 1e-9);
      if (period_s < 12.01) full.emplace_back(first, second);
    }
  }
  ASSERT_FALSE(full.empty());
  EXPECT_EQ(full.front(), std::pair(4, 2));
}

TEST(SimulatedRunTest, PeriodIsThatOfTheLaterHalfBeforeThePipelineDrains) {
  SimulatedRun result;
  result.updates_s = {10, 12, 14, 17, 20, 21};
  EXPECT_DOUBLE_EQ(result.period_s(), (21 - 14) / 3.0);
  result.draining = 1;
  EXPECT_DOUBLE_EQ(result.period_s(), (20 - 14) / 2.0);
  result.draining = 5;  // nothing steady is left
  EXPECT_DOUBLE_EQ(result.period_s(), (21 - 14) / 3.0);
  result.updates_s = {10};
  EXPECT_DOUBLE_EQ(result.period_s(), 10);
}

}  // namespace
}  // namespace dynpipe::planner
