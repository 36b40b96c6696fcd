#include "pipeline/step_recorder.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "support/manual_clock.hpp"

namespace dynpipe::pipeline {
namespace {

using schedule::Instruction;
using schedule::Op;

class StepRecorderTest : public ::testing::Test {
 protected:
  /// An instruction that comes after a message of so long, waits for memory, and computes.
  void step(Op op, std::int64_t index, double message_s, double memory_s, double work_s) {
    const Instruction instruction{op, {}, -1, index};
    recorder_.ready(instruction);
    clock_.pass(message_s);
    recorder_.started(instruction);
    clock_.pass(memory_s);
    recorder_.begun(instruction);
    clock_.pass(work_s);
    recorder_.done(instruction);
  }

  std::vector<StepKind> kinds() const {
    std::vector<StepKind> kinds;
    for (const TimedStep& step : recorder_.steps()) kinds.push_back(step.kind);
    return kinds;
  }

  testing::ManualClock clock_;
  StepRecorder recorder_{clock_, 4};
};

TEST_F(StepRecorderTest, notes_steps_and_the_waits_before_them) {
  recorder_.begin_training({0, 1});
  step(Op::backward, 7, 1, 2, 4);
  EXPECT_EQ(kinds(), (std::vector<StepKind>{StepKind::wait_gradient, StepKind::wait_send,
                                            StepKind::backward}));
  const TimedStep& last = recorder_.steps()[2];
  EXPECT_EQ(last.end_s - last.start_s, 4);
  EXPECT_EQ(last.index, 7);
  EXPECT_EQ(recorder_.steps()[0].end_s, recorder_.steps()[1].start_s);
}

TEST_F(StepRecorderTest, short_waits_are_none) {
  recorder_.begin_training({0, 1});
  step(Op::forward, 0, 1e-6, 0, 0);
  EXPECT_EQ(kinds(), std::vector<StepKind>{StepKind::forward}) << "a step is one however short";
}

TEST_F(StepRecorderTest, an_update_waits_for_no_memory) {
  recorder_.begin_training({0, 1});
  const Instruction update{Op::update, {}, -1, 3};
  recorder_.ready(update);
  clock_.pass(1);
  recorder_.begun(update);
  clock_.pass(1);
  recorder_.done(update);
  EXPECT_EQ(kinds(), std::vector<StepKind>{StepKind::update});
}

TEST_F(StepRecorderTest, evaluations_are_left_out) {
  recorder_.begin_evaluation(1);
  step(Op::forward, 0, 1, 1, 1);
  EXPECT_TRUE(recorder_.steps().empty());
}

TEST_F(StepRecorderTest, counts_what_it_has_no_room_for) {
  recorder_.begin_training({0, 1});
  step(Op::forward, 0, 1, 1, 1);
  step(Op::forward, 1, 1, 1, 1);
  EXPECT_EQ(recorder_.steps().size(), 4U);
  EXPECT_EQ(recorder_.dropped(), 2);
  recorder_.clear();
  step(Op::forward, 2, 0, 0, 1);
  EXPECT_EQ(kinds(), std::vector<StepKind>{StepKind::forward});
  EXPECT_EQ(recorder_.dropped(), 0);
}

}  // namespace
}  // namespace dynpipe::pipeline
