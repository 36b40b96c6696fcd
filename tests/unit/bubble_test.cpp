// How long ranks wait under each synchronous schedule, against the papers' formulas.
#include <gtest/gtest.h>

#include "schedule/checker.hpp"
#include "support/stream_times.hpp"

namespace dynpipe::testing {
namespace {

double bubble(plan::Schedule schedule, int stages, int microbatches, const StepCosts& costs) {
  const plan::Plan plan = straight_plan(schedule, stages, microbatches);
  const auto streams = schedule::training_streams(plan, {0, 1});
  EXPECT_FALSE(schedule::find_training_problem(plan, {0, 1}, 0, streams));
  return duration(plan, streams, costs) - microbatches * costs.microbatch();
}

// Whole numbers of sixteenths, so that sums are exact. The formulas ask for parts of about equal
// length: neither B nor F shorter than W.
const std::vector<StepCosts> k_costs = {{1, 1, 1}, {1, 1.25, 0.75}, {1.5, 1, 0.5}};

TEST(BubbleTest, IsThatOfTheory) {
  for (const auto schedule :
       {plan::Schedule::gpipe, plan::Schedule::one_f_one_b, plan::Schedule::zb_h1}) {
    for (int stages = 2; stages <= 8; ++stages) {
      for (int microbatches = stages; microbatches <= 4 * stages; ++microbatches) {
        for (const StepCosts& costs : k_costs) {
          EXPECT_EQ(bubble(schedule, stages, microbatches, costs),
                    bubble_in_theory(schedule, stages, costs))
              << plan::name_of(schedule) << ", " << stages << " stages, " << microbatches
              << " microbatches, F " << costs.forward << ", B " << costs.backward_input << ", W "
              << costs.backward_weight;
        }
      }
    }
  }
}

// Also where parts are of other lengths, and microbatches few: splitting never costs time.
TEST(BubbleTest, OfZbH1IsNeverMoreThanOf1f1b) {
  for (const StepCosts& costs :
       {StepCosts{1, 1, 1}, StepCosts{1, 1, 2}, StepCosts{2, 1, 2}, StepCosts{0.5, 2, 1}}) {
    for (int stages = 1; stages <= 8; ++stages) {
      for (int microbatches = 1; microbatches <= 3 * stages; ++microbatches) {
        EXPECT_LE(bubble(plan::Schedule::zb_h1, stages, microbatches, costs),
                  bubble(plan::Schedule::one_f_one_b, stages, microbatches, costs))
            << stages << " stages, " << microbatches << " microbatches";
      }
    }
  }
}

// In the long run, as the summary of a plan tells it.
TEST(WaitingShareTest, IsTheBubbleOfSynchronousSchedules) {
  const std::vector<StepCosts> costs(4);
  for (const auto schedule : {plan::Schedule::gpipe, plan::Schedule::one_f_one_b}) {
    for (double share : schedule::waiting_shares(straight_plan(schedule, 4, 8), costs)) {
      EXPECT_DOUBLE_EQ(share, 3.0 / 11.0);  // (S - 1) / (M + S - 1)
    }
  }
}

TEST(WaitingShareTest, IsNoneInAFullAsynchronousPipelineOfEqualStages) {
  const plan::Plan plan = straight_plan(plan::Schedule::asynchronous, 4, 2);
  for (double share : schedule::waiting_shares(plan, std::vector<StepCosts>(4))) {
    EXPECT_NEAR(share, 0, 1e-12);
  }
}

TEST(WaitingShareTest, IsWhatALongerStageCostsTheOthers) {
  const plan::Plan plan = straight_plan(plan::Schedule::asynchronous, 3, 4);
  const auto shares = schedule::waiting_shares(plan, std::vector<StepCosts>{{}, {2, 2, 2}, {}});
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_NEAR(shares[0], 0.5, 1e-12);
  EXPECT_NEAR(shares[1], 0, 1e-12);
  EXPECT_NEAR(shares[2], 0.5, 1e-12);
}

}  // namespace
}  // namespace dynpipe::testing
