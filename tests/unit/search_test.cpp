// The planner's search against all plans there are, and against what others plan.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>

#include "base/errors.hpp"
#include "base/random.hpp"
#include "planner/candidates.hpp"
#include "planner/judge.hpp"
#include "support/planner_cases.hpp"

namespace dynpipe::testing {
namespace {

using planner::Cluster;
using planner::PlanChoice;
using planner::SearchRequest;

struct Instance {
  model::Profile profile;
  Cluster cluster;
  SearchRequest request;
};

Instance random_instance(std::uint64_t seed, bool equal_ranks, bool replicas) {
  const base::Philox random(seed, "instance");
  const int ranks = 2 + static_cast<int>(random.below(0, replicas ? 2 : 3));
  const int layers = ranks + static_cast<int>(random.below(1, replicas ? 3 : 4));
  Instance instance;
  instance.profile = random_profile(layers, seed);
  instance.cluster =
      equal_ranks ? planner::uniform_cluster(ranks, 2e-5, 1e8 * std::pow(100.0, random.uniform(2)))
                  : random_cluster(ranks, seed);
  instance.request.microbatches = {1 << random.below(3, 4)};
  instance.request.batch =
      instance.request.microbatches.front() * (1 + static_cast<std::int64_t>(random.below(4, 4))) +
      static_cast<std::int64_t>(random.below(5, 2));
  instance.request.kappa = 0.1 * random.uniform(6);
  instance.request.replicas = replicas;
  if (random.below(7, 2) == 1) instance.request.policies = {plan::WeightPolicy::stash};
  return instance;
}

/// Runs the search on 100 instances and compares.
void compare(std::uint64_t first_seed, bool equal_ranks, bool replicas) {
  int optimal = 0;
  for (std::uint64_t seed = first_seed; seed < first_seed + 100; ++seed) {
    const Instance instance = random_instance(seed, equal_ranks, replicas);
    const Optimum optimum = brute_force(instance.profile, instance.cluster, instance.request, 1);
    const PlanChoice choice = planner::search(instance.profile, instance.cluster, instance.request);
    optimal += choice.objective <= optimum.objective * (1 + 1e-9) ? 1 : 0;
    EXPECT_LE(choice.objective, optimum.objective * 1.005) << "seed " << seed;
  }
  std::printf("%d of 100 are no worse than the best of all plans\n", optimal);
}

TEST(SearchTest, FindsTheBestOfAllPlansForEqualRanks) {
  compare(1, true, false);
}
TEST(SearchTest, FindsTheBestOfAllPlansForUnequalRanks) {
  compare(1001, false, false);
}
TEST(SearchTest, FindsTheBestOfAllPlansWithReplicas) {
  compare(2001, true, true);
}
TEST(SearchTest, FindsTheBestOfAllPlansWithUnequalReplicas) {
  compare(3001, false, true);
}

double fullest(const PlanChoice& choice) {
  double most = 0;
  for (const auto& stage : choice.stages) most = std::max(most, stage.memory_bytes);
  return most;
}

/// 12 layers on 4 ranks, all cuts; 60 layers on 8 ranks, by dynamic programming.
std::vector<Instance> two_sizes() {
  std::vector<Instance> instances;
  for (const auto& [layers, ranks] : {std::pair{12, 4}, {60, 8}}) {
    Instance instance{random_profile(layers, 5), planner::uniform_cluster(ranks, 1e-5, 1e9), {}};
    instance.request.batch = 32;
    instance.request.kappa = 0.02;
    instances.push_back(instance);
  }
  return instances;
}

TEST(SearchTest, KeepsTheMemoryLimit) {
  for (Instance& instance : two_sizes()) {
    for (const bool recompute : {false, true}) {
      instance.request.recompute = recompute;
      const double needed =
          fullest(planner::search(instance.profile, instance.cluster, instance.request));
      double last_objective = 0;
      for (const double part : {1.0, 0.9, 0.8, 0.7}) {
        SearchRequest limited = instance.request;
        limited.memory_bytes = needed * part;
        PlanChoice choice;
        try {
          choice = planner::search(instance.profile, instance.cluster, limited);
        } catch (const base::InputError&) {
          break;
        }
        EXPECT_LE(fullest(choice), limited.memory_bytes);
        EXPECT_GE(choice.objective, last_objective * 0.97) << "less memory is not faster";
        last_objective = choice.objective;
      }
    }
  }
}

TEST(SearchTest, SaysTheSmallestLimitThatSomethingFits) {
  for (Instance& instance : two_sizes()) {
    instance.request.memory_bytes = 1 << 20;
    std::string message;
    try {
      planner::search(instance.profile, instance.cluster, instance.request);
    } catch (const base::InputError& error) {
      message = error.what();
    }
    int mebibytes = 0;
    const std::size_t at = message.find("fits is ");
    ASSERT_NE(at, std::string::npos) << message;
    ASSERT_EQ(std::sscanf(message.c_str() + at, "fits is %d MiB", &mebibytes), 1) << message;
    instance.request.memory_bytes = mebibytes * double{1 << 20};
    EXPECT_NO_THROW(planner::search(instance.profile, instance.cluster, instance.request));
  }
  Instance small = two_sizes().front();
  small.request.memory_bytes = 1 << 20;
  small.request.recompute = false;
  EXPECT_THROW(planner::search(small.profile, small.cluster, small.request), base::InputError);
}

TEST(SearchTest, KeepsPinsAndTheNumberOfStages) {
  for (Instance& instance : two_sizes()) {
    for (int stages = 2; stages <= 3; ++stages) {
      instance.request.stages = stages;
      instance.request.pins.assign(instance.profile.layers.size(), -1);
      instance.request.pins[8] = 1;
      instance.request.pins[2] = 0;
      const PlanChoice choice =
          planner::search(instance.profile, instance.cluster, instance.request);
      EXPECT_EQ(choice.plan.size(), stages);
      EXPECT_GE(choice.plan.stages[0].last, 2);
      EXPECT_LE(choice.plan.stages[1].first, 8);
      EXPECT_GE(choice.plan.stages[1].last, 8);
    }
  }
}

TEST(SearchTest, RefusesWhatCannotBe) {
  const model::Profile profile = random_profile(3, 1);
  const Cluster cluster = planner::uniform_cluster(4, 0, 1e9);
  const auto refusal = [&](const std::function<void(SearchRequest&)>& change) {
    SearchRequest request;
    request.batch = 16;
    change(request);
    try {
      planner::search(profile, cluster, request);
    } catch (const base::InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal([](SearchRequest&) {}), "");
  EXPECT_EQ(refusal([](SearchRequest& r) { r.replicas = false; }),
            "replicas: 4 ranks for 3 layers need stages of several ranks, which were ruled out");
  EXPECT_EQ(refusal([](SearchRequest& r) { r.stages = 4; }),
            "stages: 4 are more than there are 3 layers");
  EXPECT_EQ(refusal([](SearchRequest& r) {
              r.pins = {1, 0, -1};
            }),
            "pin: 'layera' in stage 1 contradicts the layers' order");
  EXPECT_EQ(refusal([](SearchRequest& r) {
              r.pins = {-1, -1, 3};
            }),
            "pin: 'layerc' in stage 3: there are at most 3 stages");
  EXPECT_EQ(refusal([](SearchRequest& r) {
              r.stages = 3;
              r.pins = {-1, 0, -1};
            }),
            "pin: no cut of the layers into stages keeps all of them");
  EXPECT_EQ(refusal([](SearchRequest& r) { r.batch = 4; }),
            "microbatches: are more than the 4 samples of a batch");
}

TEST(SearchTest, IsNeverWorseThanABaseline) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const base::Philox random(seed, "baselines");
    const int ranks = 2 + static_cast<int>(random.below(0, 5));
    const int layers = 3 + static_cast<int>(random.below(1, 12));
    const model::Profile profile = random_profile(layers, seed);
    const Cluster cluster =
        seed % 2 == 0 ? planner::uniform_cluster(ranks, 2e-5, 3e8) : random_cluster(ranks, seed);
    SearchRequest request;
    request.batch = 16;
    request.microbatches = {4, 8};
    request.schedules = {plan::Schedule::asynchronous, plan::Schedule::gpipe};
    request.kappa = 0.1 * random.uniform(2);
    for (int layer = 0; layer < layers; ++layer) {
      request.layer_flops.push_back(1 + static_cast<double>(random.below(10 + layer, 9)));
    }
    const PlanChoice choice = planner::search(profile, cluster, request);
    for (const planner::Baseline baseline : planner::k_baselines) {
      for (const int m : request.microbatches) {
        const auto plan = planner::baseline_plan(
            baseline, profile, cluster,
            {request.batch, ranks, m, request.policies.front(), request.layer_flops});
        ASSERT_TRUE(plan);
        EXPECT_LE(choice.objective,
                  planner::judged(*plan, profile, cluster, request).objective * (1 + 1e-9))
            << planner::name_of(baseline) << ", seed " << seed;
      }
    }
  }
}

double gain_over_pipedream(const model::Profile& profile, const Cluster& cluster,
                           const SearchRequest& request) {
  const auto plan = planner::baseline_plan(
      planner::Baseline::pipedream, profile, cluster,
      {request.batch, cluster.size(), request.microbatches.front(), request.policies.front(), {}});
  return planner::judged(*plan, profile, cluster, request).objective /
         planner::search(profile, cluster, request).objective;
}

// Transfers of a third of a stage's time: its rule takes them for hidden, with the least warm-ups.
TEST(SearchTest, IsBetterThanPipeDreamOnSlowLinks) {
  const model::Profile profile = equal_profile(8, {1e-3, 1e-3, 1e-3}, 1'000'000, 40'000'000);
  SearchRequest request;
  request.batch = 8;
  EXPECT_GT(gain_over_pipedream(profile, planner::uniform_cluster(8, 1e-5, 1.05e9), request), 1.15);
}

TEST(SearchTest, IsBetterThanPipeDreamOnUnequalRanks) {
  const model::Profile profile = equal_profile(24, {1e-3, 1e-3, 1e-3}, 10'000, 1'000'000);
  Cluster cluster = planner::uniform_cluster(6, 1e-5, 1e10);
  cluster.ranks[1].slowdown = cluster.ranks[4].slowdown = 1.8;
  SearchRequest request;
  request.batch = 8;
  EXPECT_GT(gain_over_pipedream(profile, cluster, request), 1.15);
}

// What the formula says a stage holds, against its streams.
TEST(EstimatorTest, FootprintIsThatOfTheStreams) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    for (const auto schedule : {plan::Schedule::asynchronous, plan::Schedule::one_f_one_b,
                                plan::Schedule::gpipe, plan::Schedule::zb_h1}) {
      Instance instance = random_instance(seed, true, seed % 3 == 0);
      planner::Objective objective;
      objective.schedule = schedule;
      objective.policy = instance.request.policies.front();
      std::vector<int> order(instance.cluster.ranks.size());
      std::iota(order.begin(), order.end(), 0);
      const planner::CostModel costs(instance.profile, instance.cluster, order,
                                     instance.request.batch, instance.request.microbatches.front(),
                                     instance.cluster.size());
      const planner::Estimator estimator(costs, objective);
      for (planner::Sketch& sketch : planner::candidates(estimator, {}, 8)) {
        if (seed % 2 == 0) sketch.parts.front().recompute = true;
        const plan::Plan plan = estimator.plan_of(sketch);
        for (int s = 0; s < plan.size(); ++s) {
          schedule::Footprint most;
          for (const int rank : plan.stages[static_cast<std::size_t>(s)].ranks) {
            const auto of = schedule::footprint(
                plan, rank, schedule::training_stream(plan, rank, schedule::steady_segment(plan)));
            most.activations = std::max(most.activations, of.activations);
            most.inputs = std::max(most.inputs, of.inputs);
            most.incoming_gradients = std::max(most.incoming_gradients, of.incoming_gradients);
            most.gradient_sums = std::max(most.gradient_sums, of.gradient_sums);
          }
          const auto said = estimator.footprint(sketch.parts, sketch.warmups, s);
          const std::string where =
              fmt::format("seed {}, {}, stage {} of {}, M {}", seed, plan::name_of(schedule), s,
                          plan.size(), plan.microbatches);
          EXPECT_GE(said.activations, most.activations) << where;
          EXPECT_LE(said.activations, most.activations + 1) << where;
          EXPECT_GE(said.inputs, most.inputs) << where;
          EXPECT_GE(said.incoming_gradients, most.incoming_gradients) << where;
          EXPECT_GE(said.gradient_sums, most.gradient_sums) << where;
          EXPECT_LE(said.gradient_sums, most.gradient_sums + 1) << where;
        }
      }
    }
  }
}

}  // namespace
}  // namespace dynpipe::testing
