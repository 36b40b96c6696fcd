#include "schedule/schedule.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.hpp"
#include "schedule/checker.hpp"
#include "support/random_scenario.hpp"

namespace dynpipe::schedule {
namespace {

using testing::random_plan;

std::string text_of(const Stream& stream) {
  std::string text;
  for (const Instruction& step : stream) {
    switch (step.op) {
      case Op::forward:
        text += fmt::format("F{} ", step.index);
        break;
      case Op::forward_lean:
        text += fmt::format("f{} ", step.index);
        break;
      case Op::recompute:
        text += fmt::format("R{} ", step.index);
        break;
      case Op::backward:
      case Op::backward_input:
        text += fmt::format("B{} ", step.index);
        break;
      case Op::backward_weight:
        text += fmt::format("W{} ", step.index);
        break;
      case Op::update:
        text += fmt::format("U{} ", step.index);
        break;
      default:
        break;
    }
  }
  return text;
}

plan::Plan two_stages(plan::Schedule schedule, int microbatches) {
  plan::Plan plan;
  plan.schedule = schedule;
  plan.policy = plan::WeightPolicy::stash;
  plan.microbatches = microbatches;
  const std::vector<int> owners(static_cast<std::size_t>(microbatches), 0);
  plan.stages = {{0, 4, {0}, owners, 1}, {5, 9, {1}, owners, 0}};
  return plan;
}

TEST(ScheduleTest, GpipeRunsAllForwardsThenAllBackwards) {
  EXPECT_EQ(text_of(training_stream(two_stages(plan::Schedule::gpipe, 3), 0, {0, 2})),
            "F0 F1 F2 B0 B1 B2 U0 F3 F4 F5 B3 B4 B5 U1 ");
}

TEST(ScheduleTest, OneFOneBAlternatesWithinAGroupAndFlushes) {
  const plan::Plan plan = two_stages(plan::Schedule::one_f_one_b, 3);
  EXPECT_EQ(text_of(training_stream(plan, 0, {0, 2})),
            "F0 F1 B0 F2 B1 B2 U0 F3 F4 B3 F5 B4 B5 U1 ");
  EXPECT_EQ(text_of(training_stream(plan, 1, {0, 2})),
            "F0 B0 F1 B1 F2 B2 U0 F3 B3 F4 B4 F5 B5 U1 ");
}

TEST(ScheduleTest, ZbH1KeepsWeightPartsForTheEndOfAGroup) {
  const plan::Plan plan = two_stages(plan::Schedule::zb_h1, 3);
  EXPECT_EQ(text_of(training_stream(plan, 0, {0, 2})),
            "F0 F1 B0 W0 F2 B1 W1 B2 W2 U0 F3 F4 B3 W3 F5 B4 W4 B5 W5 U1 ");
  EXPECT_EQ(text_of(training_stream(plan, 1, {0, 2})),
            "F0 B0 F1 B1 W0 F2 B2 W1 W2 U0 F3 B3 F4 B4 W3 F5 B5 W4 W5 U1 ");
}

TEST(ScheduleTest, ZbH1SendsAGradientBeforeAnyWeightPart) {
  const plan::Plan plan = two_stages(plan::Schedule::zb_h1, 3);
  const Stream stream = training_stream(plan, 1, {0, 2});
  for (std::size_t i = 0; i < stream.size(); ++i) {
    if (stream[i].op != Op::backward_input) continue;
    EXPECT_EQ(stream[i + 1].op, Op::send);
    EXPECT_EQ(stream[i + 1].index, stream[i].index);
  }
}

TEST(ScheduleTest, ZbH1HoldsNoMoreThanTheFirstStageOf1f1b) {
  const model::Model model = testing::plain_model();
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    plan::Plan plan = random_plan(model, seed, {.ranks = 12, .stages = 8, .microbatches = 9});
    plan.schedule = plan::Schedule::zb_h1;
    plan::set_recompute(plan, "none", "");
    const Segment steady = steady_segment(plan);
    const int most = std::min(plan.stages[0].warmup, plan.microbatches - 1) + 1;
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      const Footprint need = footprint(plan, rank, training_stream(plan, rank, steady));
      EXPECT_LE(need.activations, most) << plan::to_json(plan, model);
      EXPECT_LE(need.deferred, need.activations);
    }
  }
}

TEST(ScheduleTest, RecomputingRunsAForwardAgainWhereItsBackwardDoesNotFollow) {
  plan::Plan plan = two_stages(plan::Schedule::one_f_one_b, 3);
  plan.stages[0].recompute = plan.stages[1].recompute = true;
  EXPECT_EQ(text_of(training_stream(plan, 0, {0, 1})), "f0 f1 R0 B0 f2 R1 B1 R2 B2 U0 ");
  EXPECT_EQ(text_of(training_stream(plan, 1, {0, 1})), "F0 B0 F1 B1 F2 B2 U0 ");
  plan.schedule = plan::Schedule::zb_h1;
  EXPECT_EQ(text_of(training_stream(plan, 0, {0, 1})), "f0 f1 R0 B0 W0 f2 R1 B1 W1 R2 B2 W2 U0 ");
  EXPECT_EQ(text_of(training_stream(plan, 1, {0, 1})), "F0 B0 W0 F1 B1 W1 F2 B2 W2 U0 ");
}

TEST(ScheduleTest, RecomputingHoldsTheActivationsOfOneMicrobatch) {
  const model::Model model = testing::plain_model();
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    plan::Plan plan = random_plan(model, seed, {.ranks = 12, .stages = 8, .microbatches = 9});
    plan::set_recompute(plan, "none", "");
    plan::Plan lean = plan;
    plan::set_recompute(lean, "all", "");
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      const Segment steady = steady_segment(plan);
      const Footprint all = footprint(plan, rank, training_stream(plan, rank, steady));
      const Footprint least = footprint(lean, rank, training_stream(lean, rank, steady));
      EXPECT_EQ(least.activations, std::min(all.activations, 1)) << plan::to_json(plan, model);
      EXPECT_LE(least.inputs, all.inputs);
      EXPECT_LE(least.deferred, 1);
    }
  }
}

TEST(ScheduleTest, AsyncAlternatesWithoutAFlush) {
  EXPECT_EQ(text_of(training_stream(two_stages(plan::Schedule::asynchronous, 2), 0, {0, 2})),
            "F0 F1 B0 F2 B1 U0 F3 B2 B3 U1 ");
}

TEST(ScheduleTest, ASegmentGoesOnWithTheRunsNumbers) {
  EXPECT_EQ(text_of(training_stream(two_stages(plan::Schedule::asynchronous, 2), 1, {5, 6})),
            "F10 B10 F11 B11 U5 ");
}

TEST(ScheduleTest, DelayFollowsWarmupAndPolicy) {
  plan::Plan plan = two_stages(plan::Schedule::asynchronous, 4);
  plan.stages[0].warmup = 5;
  EXPECT_EQ(plan.delay(0), 2);
  EXPECT_EQ(plan.delay(1), 0);
  plan.policy = plan::WeightPolicy::double_buffer;
  EXPECT_EQ(plan.delay(1), 2);
  plan.schedule = plan::Schedule::one_f_one_b;
  EXPECT_EQ(plan.delay(0), 0);
}

TEST(ScheduleTest, EveryRandomPlansStreamsPassTheChecker) {
  const model::Model model = testing::plain_model();
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const plan::Plan plan = random_plan(model, seed, {.ranks = 12, .stages = 8, .microbatches = 9});
    const Segment segment{static_cast<std::int64_t>(seed % 3),
                          static_cast<std::int64_t>(seed % 3) + 7};
    const auto problem =
        find_training_problem(plan, segment, segment.first_group, training_streams(plan, segment));
    ASSERT_FALSE(problem) << *problem << "\n" << plan::to_json(plan, model);
    const std::int64_t count = 3 * plan.microbatches;
    const auto evaluation = find_evaluation_problem(plan, count, evaluation_streams(plan, count));
    ASSERT_FALSE(evaluation) << *evaluation << "\n" << plan::to_json(plan, model);
  }
}

TEST(ScheduleTest, FootprintOfALongSegmentIsThatOfAShortOne) {
  const model::Model model = testing::plain_model();
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const plan::Plan plan = random_plan(model, seed);
    const Segment steady = steady_segment(plan);
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      const Footprint some = footprint(plan, rank, training_stream(plan, rank, steady));
      const Footprint many =
          footprint(plan, rank, training_stream(plan, rank, {0, 5 * steady.end_group}));
      EXPECT_EQ(some.activations, many.activations);
      EXPECT_EQ(some.inputs, many.inputs);
      EXPECT_EQ(some.incoming_gradients, many.incoming_gradients);
      EXPECT_EQ(some.deferred, many.deferred);
      EXPECT_EQ(some.gradient_sums, many.gradient_sums);
      EXPECT_EQ(some.lean_forwards, many.lean_forwards);
    }
  }
}

// ---- Seeded mistakes: each kind, at every place of many random plans' streams, must be found.
// ----

enum class Mistake {
  dropped,        // any instruction left out
  doubled,        // any instruction twice
  swapped_sends,  // a send exchanged with the next one to the same rank
  swapped_receives,
  wrong_peer,
  early_update,          // an update before its wait
  early_reduction,       // a reduction before the last backward
  early_weight_part,     // the weight part of a backward before its input part
  swapped_weight_parts,  // gradients added up in another order
};

// The stream with the mistake at `position`, or nothing where it makes no difference there.
std::optional<Stream> with_mistake(Stream stream, Mistake mistake, std::size_t position,
                                   int ranks) {
  Instruction& step = stream[position];
  const auto at = stream.begin() + static_cast<std::ptrdiff_t>(position);
  switch (mistake) {
    case Mistake::dropped:
      stream.erase(at);
      return stream;
    case Mistake::doubled:
      stream.insert(at, Instruction(step));
      return stream;
    case Mistake::swapped_sends:
    case Mistake::swapped_receives: {
      const Op op = mistake == Mistake::swapped_sends ? Op::send : Op::receive;
      if (step.op != op) return std::nullopt;
      const auto next = std::find_if(at + 1, stream.end(), [&](const Instruction& other) {
        return other.op == op && other.peer == step.peer && other.payload == step.payload;
      });
      if (next == stream.end()) return std::nullopt;
      std::swap(step.index, next->index);
      return stream;
    }
    case Mistake::wrong_peer:
      if (step.op != Op::send && step.op != Op::receive) return std::nullopt;
      step.peer = (step.peer + 1) % ranks;
      return stream;
    case Mistake::early_update:
      if (step.op != Op::update || position == 0) return std::nullopt;
      std::swap(stream[position], stream[position - 1]);
      return stream;
    case Mistake::early_reduction: {
      if (step.op != Op::reduce_start) return std::nullopt;
      std::size_t backward = position;
      while (backward > 0 && !completes_backward(stream[backward].op)) --backward;
      if (!completes_backward(stream[backward].op)) return std::nullopt;
      std::rotate(stream.begin() + static_cast<std::ptrdiff_t>(backward), at, at + 1);
      return stream;
    }
    case Mistake::early_weight_part: {
      if (step.op != Op::backward_weight) return std::nullopt;
      const auto input_part =
          std::find(stream.begin(), at, Instruction{.op = Op::backward_input, .index = step.index});
      std::rotate(input_part, at, at + 1);
      return stream;
    }
    case Mistake::swapped_weight_parts: {
      if (step.op != Op::backward_weight) return std::nullopt;
      const auto next = std::find_if(at + 1, stream.end(), [](const Instruction& other) {
        return other.op == Op::backward_weight;
      });
      if (next == stream.end()) return std::nullopt;
      std::swap(step.index, next->index);
      return stream;
    }
  }
  return std::nullopt;
}

class MistakeTest : public ::testing::TestWithParam<Mistake> {};

TEST_P(MistakeTest, IsFoundWhereverItIsMade) {
  const model::Model model = testing::plain_model();
  int made = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const plan::Plan plan = random_plan(model, seed);
    const Segment segment{0, 4};
    const std::vector<Stream> right = training_streams(plan, segment);
    for (std::size_t rank = 0; rank < right.size(); ++rank) {
      for (std::size_t position = 0; position < right[rank].size(); ++position) {
        auto wrong = with_mistake(right[rank], GetParam(), position, plan.ranks());
        if (!wrong) continue;
        ++made;
        std::vector<Stream> streams = right;
        streams[rank] = std::move(*wrong);
        ASSERT_TRUE(find_training_problem(plan, segment, 0, streams))
            << "rank " << rank << ", '" << to_string(right[rank][position]) << "' at " << position
            << "\n"
            << plan::to_json(plan, model);
      }
    }
  }
  EXPECT_GT(made, 100);
}

INSTANTIATE_TEST_SUITE_P(Kinds, MistakeTest,
                         ::testing::Values(Mistake::dropped, Mistake::doubled,
                                           Mistake::swapped_sends, Mistake::swapped_receives,
                                           Mistake::wrong_peer, Mistake::early_update,
                                           Mistake::early_reduction, Mistake::early_weight_part,
                                           Mistake::swapped_weight_parts));

TEST(CheckerTest, NamesTheRanksOfADeadlock) {
  const plan::Plan plan = two_stages(plan::Schedule::one_f_one_b, 2);
  std::vector<Stream> streams = training_streams(plan, {0, 1});
  // The last stage wants the second microbatch first, the first stage sends them in order.
  std::erase_if(streams[1], [](const Instruction& step) { return step.op == Op::send; });
  const auto problem = find_training_problem(plan, {0, 1}, 0, streams);
  ASSERT_TRUE(problem);
  EXPECT_NE(problem->find("deadlock: rank 0 at 'backward 0'"), std::string::npos) << *problem;
}

}  // namespace
}  // namespace dynpipe::schedule
