// The gate of the core: whatever the plan, training is the delayed recursion, nothing else.
#include <gtest/gtest.h>

#include "base/errors.hpp"
#include "support/delayed_recursion.hpp"
#include "support/random_scenario.hpp"

namespace dynpipe::testing {
namespace {

constexpr double k_tolerance = 1e-10;

class GateTest : public ::testing::TestWithParam<int> {};

// Ten scenarios a test, so that CTest can run parts of the gate side by side.
TEST_P(GateTest, FakeDeviceEqualsTheDelayedRecursion) {
  for (int i = 0; i < 10; ++i) {
    const Scenario scenario = random_scenario(static_cast<std::uint64_t>(GetParam() * 10 + i));
    const Outcome expected = run_delayed_recursion(scenario);
    const Outcome actual = run_on_threads(scenario, {.seed = scenario.seed});
    EXPECT_TRUE(actual.replicas_agree) << describe(scenario);
    EXPECT_LE(largest_difference(actual.losses, expected.losses), k_tolerance)
        << describe(scenario);
    EXPECT_LE(largest_difference(actual.state, expected.state), k_tolerance) << describe(scenario);
    EXPECT_TRUE(same_correct(actual.correct, expected)) << describe(scenario);
    EXPECT_LE(largest_difference(actual.evaluations, expected.evaluations), k_tolerance)
        << describe(scenario);
    if (HasFailure()) return;
  }
}

// Were the fake device blind to a missing wait, the gate would prove nothing: with one left out,
// most scenarios must come out wrong.
int wrong_outcomes(comm::LoopbackOptions mistake) {
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Scenario scenario = random_scenario(seed);
    if (scenario.plan.size() == 1) continue;
    const Outcome expected = run_delayed_recursion(scenario);
    mistake.seed = seed;
    try {
      const Outcome actual = run_on_threads(scenario, mistake);
      const bool right = largest_difference(actual.losses, expected.losses) <= k_tolerance &&
                         largest_difference(actual.state, expected.state) <= k_tolerance;
      wrong += right ? 0 : 1;
    } catch (const base::RunError&) {
      ++wrong;  // a loss that is not finite
    }
  }
  return wrong;
}

TEST(FakeDeviceTest, ShowsASendThatDoesNotWaitForItsData) {
  EXPECT_GE(wrong_outcomes({.longest_delay_s = 0, .ignore_ready = true}), 5);
}

TEST(FakeDeviceTest, ShowsAReceiveIntoABufferThatIsStillInUse) {
  EXPECT_GE(wrong_outcomes({.longest_delay_s = 0, .ignore_free = true}), 5);
}

TEST(FakeDeviceTest, ShowsWorkThatDoesNotWaitForItsMessage) {
  EXPECT_GE(wrong_outcomes({.longest_delay_s = 200e-6, .skip_join = true}), 5);
}

INSTANTIATE_TEST_SUITE_P(Scenarios, GateTest, ::testing::Range(0, 32));

}  // namespace
}  // namespace dynpipe::testing
