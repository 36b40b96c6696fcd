// The gate of the core over real MPI ranks: whatever the plan, training is the delayed recursion.
#include <gtest/gtest.h>

#include "mpi/mpi_fixture.hpp"
#include "support/delayed_recursion.hpp"
#include "support/random_scenario.hpp"

namespace dynpipe::testing {
namespace {

constexpr int k_scenarios = 300;
constexpr double k_tolerance = 1e-10;

TEST(MpiGateTest, EqualsTheDelayedRecursion) {
  const int ranks = mpi_world()->size();
  for (std::uint64_t seed = 0; seed < k_scenarios; ++seed) {
    const Scenario scenario = random_scenario(seed + 1000, {.ranks = ranks});
    const auto outcome = run_on_mpi(scenario);
    if (!outcome) continue;
    const Outcome expected = run_delayed_recursion(scenario);
    const double difference =
        largest_difference(outcome->state, same_names(expected.state, outcome->state));
    EXPECT_LE(difference, k_tolerance) << describe(scenario);
    EXPECT_LE(largest_difference(outcome->evaluations, expected.evaluations), k_tolerance)
        << describe(scenario);
    if (mpi_world()->rank() == 0) {
      EXPECT_TRUE(same_correct(outcome->correct, expected)) << describe(scenario);
      EXPECT_LE(largest_difference(outcome->losses, expected.losses), k_tolerance)
          << describe(scenario);
    }
  }
}

TEST(MpiBitsTest, SamePlanAndSeedGiveTheSameBitsTenTimes) {
  Scenario scenario = random_scenario(3, {.ranks = mpi_world()->size(), .stages = 3});
  scenario.dtype = tensor::DType::float32;
  scenario.onednn = true;
  std::optional<RankOutcome> first;
  for (int run = 0; run < 10; ++run) {
    auto outcome = run_on_mpi(scenario);
    mpi_world()->barrier();
    if (!outcome) continue;
    if (!first) {
      first.emplace(std::move(*outcome));
      continue;
    }
    EXPECT_EQ(outcome->losses, first->losses);
    EXPECT_EQ(largest_difference(outcome->state, first->state), 0.0);
  }
}

}  // namespace
}  // namespace dynpipe::testing
