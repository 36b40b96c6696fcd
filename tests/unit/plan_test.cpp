#include "plan/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/errors.hpp"
#include "base/random.hpp"
#include "support/random_scenario.hpp"

namespace dynpipe::plan {
namespace {

using testing::plain_model;

// A good plan of three stages over eleven layers, and the same with one part replaced.
constexpr std::string_view k_good = R"({
  "model": "plain", "schedule": "async", "weights": "stash", "microbatches": 4,
  "stages": [
    {"first": "conv1", "last": "relu1", "ranks": [0, 3], "shares": [3, 1], "warmup": 4},
    {"first": "conv2", "last": "pool", "ranks": [2], "warmup": 2},
    {"first": "flatten", "last": "fc3", "ranks": [1], "warmup": 0}]})";

std::string with(std::string_view part, std::string_view replacement) {
  std::string text(k_good);
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), replacement);
}

void expect_refused(const std::string& text, const std::string& field, const std::string& words,
                    int ranks = 4) {
  try {
    parse_plan(text, "p.json", plain_model(), ranks);
    ADD_FAILURE() << "accepted: " << text;
  } catch (const base::InputError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.rfind("p.json: ", 0), 0u) << message;
    EXPECT_NE(message.find(field), std::string::npos) << message;
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
}

TEST(PlanTest, ReadsWhatItWrites) {
  const Plan plan = parse_plan(k_good, "p.json", plain_model(), 4);
  EXPECT_EQ(plan.stages[0].owners, (std::vector<int>{0, 0, 1, 0}));
  const std::string written = to_json(plan, plain_model());
  EXPECT_EQ(to_json(parse_plan(written, "p.json", plain_model(), 4), plain_model()), written);
}

TEST(PlanTest, ReadsAndWritesWhichStagesRecompute) {
  const std::string text = with(R"("ranks": [2],)", R"("ranks": [2], "recompute": true,)");
  const Plan plan = parse_plan(text, "p.json", plain_model(), 4);
  EXPECT_FALSE(plan.stages[0].recompute);
  EXPECT_TRUE(plan.stages[1].recompute);
  const std::string written = to_json(plan, plain_model());
  EXPECT_TRUE(parse_plan(written, "p.json", plain_model(), 4).stages[1].recompute);
  expect_refused(with(R"("ranks": [2],)", R"("ranks": [2], "recompute": 1,)"),
                 "stages[1]: recompute", "must be true or false");
}

TEST(PlanTest, TakesStagesThatRecomputeByNumber) {
  Plan plan = parse_plan(k_good, "p.json", plain_model(), 4);
  const auto marked = [&](std::string_view which) {
    set_recompute(plan, which, "--recompute");
    std::vector<bool> stages;
    for (const Stage& stage : plan.stages) stages.push_back(stage.recompute);
    return stages;
  };
  EXPECT_EQ(marked("all"), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(marked("0,2"), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(marked("1"), (std::vector<bool>{false, true, false}));
  EXPECT_EQ(marked("none"), (std::vector<bool>{false, false, false}));
  for (const char* wrong : {"", "3", "-1", "0,", ",0", "0,,1", "some", "1 2", "99999999999"}) {
    EXPECT_THROW(set_recompute(plan, wrong, "--recompute"), base::InputError) << wrong;
  }
}

TEST(PlanTest, RefusesGapsAndOverlaps) {
  expect_refused(with(R"("first": "conv2")", R"("first": "relu2")"), "stages[1]: first",
                 "leaves a gap: 'conv2' is in no stage");
  expect_refused(with(R"("first": "conv2")", R"("first": "relu1")"), "stages[1]: first",
                 "overlaps");
  expect_refused(with(R"("last": "fc3")", R"("last": "relu4")"), "stages[2]: last",
                 "leaves a gap: 'fc3'");
  expect_refused(with(R"("first": "conv1")", R"("first": "relu1")"), "stages[0]: first", "gap");
}

TEST(PlanTest, RefusesEmptyStages) {
  expect_refused(with(R"("last": "relu1")", R"("last": "conv1")"), "stages[1]: first", "gap");
  expect_refused(
      with(R"("first": "conv2", "last": "pool")", R"("first": "conv2", "last": "conv1")"),
      "stages[1]: last", "the stage is empty");
  expect_refused(with("[2]", "[]"), "stages[1]: ranks", "is empty", 3);
  expect_refused(R"({"schedule": "async", "microbatches": 1, "stages": []})", "stages", "is empty");
}

TEST(PlanTest, RefusesRanksUsedTwiceOrOutOfRange) {
  expect_refused(with("[2]", "[1]"), "stages[2]: ranks", "rank 1 is used twice", 3);
  expect_refused(with("[2]", "[7]"), "stages[1]: ranks", "rank 7 is out of range");
  expect_refused(with("[2]", "[-1]"), "stages[1]: ranks", "rank -1 is negative");
}

TEST(PlanTest, RefusesAJobOfAnotherSize) {
  expect_refused(std::string(k_good), "stages", "the job has 5 ranks, the plan uses 4", 5);
  expect_refused(std::string(k_good), "stages[0]: ranks", "the job has 3 ranks, the plan uses 4",
                 3);
}

TEST(PlanTest, RefusesSharesThatMakeNoSense) {
  expect_refused(with("[3, 1]", "[0, 0]"), "stages[0]: shares", "all zero");
  expect_refused(with("[3, 1]", "[3]"), "stages[0]: shares", "array of 2 numbers");
  expect_refused(with("[3, 1]", "[3, -1]"), "stages[0]: shares", "at least 0");
  expect_refused(with(R"("shares": [3, 1])", R"("owners": [0, 1, 0])"), "stages[0]: owners",
                 "3 entries for 4 microbatches");
  expect_refused(with(R"("shares": [3, 1])", R"("owners": [0, 1, 0, 2])"), "stages[0]: owners",
                 "replica 2 does not exist");
}

TEST(PlanTest, RefusesTooSmallAWarmup) {
  expect_refused(with(R"("warmup": 4)", R"("warmup": 1)"), "stages[0]: warmup",
                 "must be at least 2");
  expect_refused(with(R"("warmup": 2)", R"("warmup": 5)"), "stages[1]: warmup",
                 "more than the 4 of the stage before it");
  expect_refused(with(R"(, "warmup": 2)", ""), "stages", "every stage a warmup, or none");
}

TEST(PlanTest, RefusesWhatIsNotAPlan) {
  expect_refused("{", "", "not JSON");
  expect_refused("[]", "", "must be an object");
  expect_refused(with("async", "zigzag"), "schedule", "known are gpipe, 1f1b, zb-h1, async");
  expect_refused(with("stash", "none"), "weights", "known are stash, 2bw");
  expect_refused(with(R"("microbatches": 4)", R"("microbatches": 0)"), "microbatches",
                 "at least 1, is 0");
  expect_refused(with(R"("microbatches": 4)", R"("microbatches": 2.5)"), "microbatches",
                 "must be a whole number");
  expect_refused(with(R"("microbatches": 4,)", ""), "microbatches", "is missing");
  expect_refused(with(R"("ranks": [2])", R"("rank": 2)"), "stages[1]: ranks", "is missing");
  expect_refused(with(R"("ranks": [2])", R"("ranks": [2], "colour": 1)"), "stages[1]",
                 "unknown field \"colour\"");
  expect_refused(with("\"conv2\"", "\"conv9\""), "stages[1]: first", "'conv9' is not a layer");
  expect_refused(with("\"plain\"", "\"other\""), "model", "the model is 'plain'");
}

TEST(PlanTest, RefusesMoreStagesThanLayers) {
  EXPECT_THROW(equal_flops_plan(plain_model(), {Schedule::asynchronous, WeightPolicy::stash, 4,
                                                std::vector<int>(12, 1)}),
               base::InputError);
}

// Any text must be a valid plan or refused by name: never a crash, never anything else thrown.
TEST(PlanTest, RandomEditsAreValidOrRefused) {
  const base::Philox random(1, "edits");
  std::uint64_t draw = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text(k_good);
    for (std::uint64_t edits = 1 + random.below(draw++, 3); edits > 0; --edits) {
      const std::size_t at = random.below(draw++, text.size());
      if (random.below(draw++, 2) == 0) {
        text[at] = "0123456789-[]{},:\"e."[random.below(draw++, 20)];
      } else {
        text.erase(at, 1 + random.below(draw++, 12));
      }
    }
    try {
      validate(parse_plan(text, "p.json", plain_model(), 4), plain_model(), 4, "p.json");
    } catch (const base::InputError&) {
    }
  }
}

TEST(BalanceTest, CutsSoThatTheDearestStageIsCheapest) {
  const model::Model model = plain_model();
  std::vector<double> costs;
  for (const auto& layer : model.layers) {
    costs.push_back(static_cast<double>(layer.facts.forward_flops));
  }
  const auto dearest = [&](const std::vector<int>& ends) {
    double worst = 0;
    int first = 0;
    for (int end : ends) {
      double sum = 0;
      for (int i = first; i <= end; ++i) sum += costs[static_cast<std::size_t>(i)];
      worst = std::max(worst, sum);
      first = end + 1;
    }
    return worst;
  };
  double best = 1e300;
  for (int a = 0; a < 9; ++a) {
    for (int b = a + 1; b < 10; ++b) best = std::min(best, dearest({a, b, 10}));
  }
  const Plan plan =
      equal_flops_plan(model, {Schedule::asynchronous, WeightPolicy::stash, 4, {1, 1, 1}});
  EXPECT_EQ(dearest({plan.stages[0].last, plan.stages[1].last, plan.stages[2].last}), best);
}

TEST(BalanceTest, EveryStageHasALayerForAnyCount) {
  for (int stages = 1; stages <= 11; ++stages) {
    const Plan plan =
        equal_flops_plan(plain_model(), {Schedule::asynchronous, WeightPolicy::stash, 3,
                                         std::vector<int>(static_cast<std::size_t>(stages), 1)});
    EXPECT_NO_THROW(validate(plan, plain_model(), stages, ""));
  }
}

std::vector<int> warmups_of(const std::vector<int>& replicas, int microbatches) {
  const Plan plan = equal_flops_plan(
      plain_model(), {Schedule::asynchronous, WeightPolicy::stash, microbatches, replicas});
  std::vector<int> warmups;
  for (const Stage& stage : plan.stages) warmups.push_back(stage.warmup);
  return warmups;
}

TEST(WarmupTest, ReplicatedPipelinesNeedMoreThanTheLeast) {
  EXPECT_EQ(warmups_of({1, 1, 1}, 4), (std::vector<int>{2, 1, 0}));
  EXPECT_EQ(warmups_of({1, 2, 1}, 4), (std::vector<int>{4, 2, 0}));
}

TEST(WarmupTest, ReplicasThatOwnNothingDoNotCount) {
  EXPECT_EQ(warmups_of({6, 2}, 1), (std::vector<int>{1, 0}));
}

TEST(OwnersTest, FollowSharesAsNearlyAsWholeMicrobatchesCan) {
  EXPECT_EQ(spread_owners({1, 1}, 5), (std::vector<int>{0, 1, 0, 1, 0}));
  EXPECT_EQ(spread_owners({3, 1}, 8), (std::vector<int>{0, 0, 1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(spread_owners({0, 2}, 3), (std::vector<int>{1, 1, 1}));
}

}  // namespace
}  // namespace dynpipe::plan
