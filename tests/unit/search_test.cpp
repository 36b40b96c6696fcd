// The planner's search against all plans there are, and against what others plan.
#include <gtest/gtest.h>

#include <cmath>

#include "base/errors.hpp"
#include "base/random.hpp"
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

}  // namespace
}  // namespace dynpipe::testing
