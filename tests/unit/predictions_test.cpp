// Predictions of several ranks, put back into the order of the samples.

#include "app/predictions.hpp"

#include <gtest/gtest.h>

namespace dynpipe::app {
namespace {

TEST(PredictionsTest, TheFirstOfTheLargestLogits) {
  Predictions predictions;
  predictions.classes = 3;
  std::vector<float> logits{1, 5, 5, 7, 0, 2};
  const tensor::Tensor values{reinterpret_cast<std::byte*>(logits.data()),
                              tensor::DType::float32,
                              tensor::Layout::plain,
                              {2, 3}};
  predictions.add({1, 2}, values, false);
  EXPECT_EQ(predictions.predictions, (std::vector<std::int32_t>{1, 0}));
  EXPECT_EQ(predictions.labels, (std::vector<std::int32_t>{1, 2}));
  EXPECT_TRUE(predictions.logits.empty());
}

TEST(PredictionsTest, SurviveTheWayToTheFirstRank) {
  const Predictions predictions{2, {1, 0}, {0, 0}, {0.5, 0.25, 1, -1}};
  const Predictions copy = unpack_predictions(pack(predictions));
  EXPECT_EQ(copy.classes, 2);
  EXPECT_EQ(copy.labels, predictions.labels);
  EXPECT_EQ(copy.predictions, predictions.predictions);
  EXPECT_EQ(copy.logits, predictions.logits);
}

TEST(PredictionsTest, EachSampleFindsItsPlace) {
  // Ranks 1 and 2 share the last stage: microbatches of 2 samples go to them in turn.
  plan::Plan plan;
  plan.microbatches = 2;
  plan.stages = {{0, 0, {0}, {0, 0}, 0}, {1, 1, {1, 2}, {0, 1}, 0}};
  const data::EvaluationOrder order(7, 2);
  std::vector<Predictions> parts(3);
  parts[1] = {1, {0, 1, 4, 5}, {10, 11, 14, 15}, {0, 1, 4, 5}};
  parts[2] = {1, {2, 3, 6}, {12, 13, 16}, {2, 3, 6}};
  const Predictions all = in_sample_order(parts, plan, order);
  EXPECT_EQ(all.labels, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(all.predictions, (std::vector<std::int32_t>{10, 11, 12, 13, 14, 15, 16}));
  EXPECT_EQ(all.logits, (std::vector<double>{0, 1, 2, 3, 4, 5, 6}));
}

}  // namespace
}  // namespace dynpipe::app
