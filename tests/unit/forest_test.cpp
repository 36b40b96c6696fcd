// The forest on slowdowns that follow a known rule, and its file.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/random.hpp"
#include "interference/forest_training.hpp"
#include "support/files.hpp"

namespace dynpipe::interference {
namespace {

using testing::expect_contains;
using testing::refusal_of;

StageFeatures stage_of(double intensity) {
  StageFeatures stage;
  stage.work = {1e8, 0, 1e8 / intensity};
  stage.seconds = 2e-3;
  stage.parameter_bytes = 1e6;
  stage.activation_bytes = 1e6;
  stage.activations_share = intensity < 8 ? 1 : 0;
  return stage;
}

/// Waiting for the core slows all stages alike; the rest is memory's, and slows a stage by how far
/// it is bound by memory.
double truth(double wait, double memory, const StageFeatures& stage) {
  const double bound = std::min(1.0, 2 / (stage.work.flops / stage.work.bytes()));
  return (1 + memory * bound) / (1 - wait);
}

Example example_of(const base::Philox& random, std::uint64_t number) {
  const auto draw = [&](std::uint64_t i) { return random.uniform(16 * number + i); };
  const double wait = draw(0) < 0.5 ? 0 : 0.8 * draw(1);
  const double memory = draw(2) < 0.5 ? 0 : 1.5 * draw(3);
  const std::uint64_t mix_now = random.below(16 * number + 4, 6);
  const std::uint64_t mix = random.below(16 * number + 5, 6);
  const auto intensity = [](std::uint64_t of) { return std::exp2(static_cast<double>(of)); };
  Environment environment;
  environment.stage = stage_of(intensity(mix_now));
  environment.slowdown =
      truth(wait, memory, environment.stage) * (1 + 0.01 * random.normal(16 * number + 6));
  environment.run_wait_share = wait;
  environment.throttled_share = environment.stolen_share = 0;
  environment.switches_per_s = 300 * wait;
  const StageFeatures candidate = stage_of(intensity(mix));
  Example example;
  example.row = features(environment, candidate);
  example.slowdown = static_cast<float>(truth(wait, memory, candidate));
  example.mix_now = static_cast<int>(mix_now);
  example.mix = static_cast<int>(mix);
  example.cause = 1;
  return example;
}

std::vector<Example> examples(std::uint64_t count, std::uint64_t seed) {
  const base::Philox random(seed, "forest test");
  std::vector<Example> all;
  for (std::uint64_t i = 0; i < count; ++i) all.push_back(example_of(random, i));
  return all;
}

TrainingSettings quick(ForestKind kind) {
  TrainingSettings settings = default_settings(kind);
  if (kind == ForestKind::random) settings.parallel_trees = 20;
  if (kind == ForestKind::boosted) settings.rounds = 20;
  return settings;
}

const Forest& boosted() {
  // Never destroyed: at exit XGBoost's own statics may be gone.
  static const Forest& forest = *new Forest(train(examples(2000, 1), quick(ForestKind::boosted)));
  return forest;
}

std::vector<FeatureRow> rows_of(const std::vector<Example>& all) {
  std::vector<FeatureRow> rows;
  for (const Example& example : all) rows.push_back(example.row);
  return rows;
}

TEST(FeaturesTest, MeasuredSlowdownComesFirstAndUnknownStaysUnknown) {
  Environment environment;
  environment.slowdown = 4;
  environment.stage = stage_of(16);
  const FeatureRow row = features(environment, stage_of(2));
  EXPECT_FLOAT_EQ(row[0], 2);
  const auto at = [&](std::string_view name) {
    std::size_t f = 0;
    while (feature_table()[f].name != name) ++f;
    return row[f];
  };
  EXPECT_FLOAT_EQ(at("more_intensity"), -3);
  EXPECT_FLOAT_EQ(at("core_slowdown"), 2);
  EXPECT_FALSE(base::is_known(at("run_wait")));
  const auto unknown =
      std::count_if(row.begin(), row.end(), [](float figure) { return !base::is_known(figure); });
  EXPECT_EQ(unknown, 6);
}

TEST(FeaturesTest, WaitingAndQuotaAreTakenOutOfTheCoresSlowdown) {
  Environment environment;
  environment.slowdown = 5;
  environment.run_wait_share = 0.5;
  environment.throttled_share = 0.25;
  EXPECT_NEAR(core_slowdown(environment), 1.25, 1e-12);
}

TEST(ForestTest, BothKindsBeatTheMeasuredSlowdownOnWhatTheyHaveNotSeen) {
  const std::vector<Example> unseen = examples(500, 2);
  for (const ForestKind kind : {ForestKind::random, ForestKind::boosted}) {
    const Forest forest = train(examples(2000, 1), quick(kind));
    const auto predictions = forest.predict(rows_of(unseen));
    Accuracy sums;
    for (std::size_t i = 0; i < unseen.size(); ++i) {
      add_error(sums, predictions[i].slowdown, unseen[i]);
    }
    const Accuracy accuracy = finish(sums);
    EXPECT_LT(accuracy.mae, 0.5 * accuracy.measured_mae) << name_of(kind);
  }
}

TEST(ForestTest, SameSeedSameBytes) {
  const auto data = examples(500, 1);
  EXPECT_EQ(train(data, quick(ForestKind::random)).to_json(),
            train(data, quick(ForestKind::random)).to_json());
}

TEST(ForestTest, AFileHoldsAllOfIt) {
  ForestFacts facts = boosted().facts();
  facts.label_noise = 0.02;
  facts.spread_scale = 1.5;
  facts.machine = "a machine";
  facts.data = "some.h5";
  facts.held_out_by_mix["conv"] = {10, 0.1, 0.2, 0.3, 0.4};
  Forest forest = train(examples(2000, 1), quick(ForestKind::boosted));
  forest.set_facts(facts);
  const std::string text = forest.to_json();
  const Forest read = Forest::parse(text, "f.json");
  EXPECT_EQ(read.to_json(), text);
  EXPECT_EQ(read.facts().held_out_by_mix, facts.held_out_by_mix);
  const auto rows = rows_of(examples(50, 3));
  const auto before = forest.predict(rows), after = read.predict(rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(before[i].slowdown, after[i].slowdown);
    EXPECT_EQ(before[i].error, after[i].error);
  }
}

TEST(ForestTest, ContributionsAddUpToThePrediction) {
  for (const Example& example : examples(20, 4)) {
    double sum = example.row.front();
    for (const float part : boosted().contributions(example.row)) sum += part;
    EXPECT_NEAR(boosted().predict(example.row).slowdown, std::max(1.0, std::exp2(sum)), 1e-4);
  }
}

TEST(ForestTest, EqualRowsGetEqualAnswersInTheirPlaces) {
  const auto all = examples(3, 5);
  const std::vector<FeatureRow> rows = {all[0].row, all[1].row, all[0].row, all[2].row};
  const auto together = boosted().predict(rows);
  ASSERT_EQ(together.size(), 4U);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(together[i].slowdown, boosted().predict(rows[i]).slowdown);
  }
  EXPECT_TRUE(boosted().predict(std::span<const FeatureRow>()).empty());
}

TEST(ForestTest, SaysWhatIsOutOfRange) {
  FeatureRow row = examples(1, 6).front().row;
  EXPECT_TRUE(boosted().predict(row).in_range);
  row[0] = 6;  // 64 times slower
  const Prediction far = boosted().predict(row);
  EXPECT_FALSE(far.in_range);
  EXPECT_EQ(boosted().outside(row), std::vector<std::size_t>{0});
  EXPECT_GT(far.slowdown, 20) << "a measured slowdown beyond all that was seen still counts";
  row = examples(1, 6).front().row;
  row[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(boosted().predict(row).in_range) << "never seen unknown";
}

TEST(ForestTest, TwoOfThreeErrorsAreWithinThePredicted) {
  const auto data = examples(2000, 1);
  const auto held_out = hold_out_mixes(data, 6, quick(ForestKind::boosted));
  EXPECT_EQ(held_out.size(), data.size());
  ForestFacts facts = boosted().facts();
  const double scale = fit_spread_scale(held_out, data, 0.01);
  int within = 0;
  for (const HeldOut& one : held_out) {
    const double error = std::abs(one.predicted / data[one.example].slowdown - 1);
    within += error <= std::hypot(0.01, scale * one.spread) ? 1 : 0;
  }
  EXPECT_NEAR(within / static_cast<double>(held_out.size()), 0.68, 0.02);
  EXPECT_NEAR((Prediction{2, 0.1, true}.confidence()), 0.6827, 1e-3);
}

TEST(ForestTest, AMixIsHeldOutWholly) {
  // Mix 5 alone behaves otherwise: whoever had seen it would know.
  auto data = examples(2000, 7);
  for (Example& example : data) {
    if (example.mix == 5) example.slowdown *= 3;
  }
  const auto held_out = hold_out_mixes(data, 6, quick(ForestKind::boosted));
  const Accuracy odd =
      accuracy_of(held_out, data, [](const Example& example) { return example.mix == 5; });
  EXPECT_GT(odd.relative, 0.4);
}

std::string refusal(const std::string& text) {
  return refusal_of([&] { Forest::parse(text, "f.json"); });
}

TEST(ForestFileTest, WhatIsNoForestIsRefusedWithTheVersionExpected) {
  expect_contains(refusal("not json"), "f.json");
  expect_contains(refusal("{}"), "f.json: format: is not \"dynpipe forest\"");
  expect_contains(refusal("{\"learner\": {}, \"version\": [1, 7, 4]}"), "version 1 is read here");
  nlohmann::json forest = nlohmann::json::parse(boosted().to_json());
  forest["feature_version"] = 0;
  expect_contains(refusal(forest.dump()),
                  "f.json: feature_version: is 0, version 1 of forests with version 1 of features "
                  "is read here");
  forest["feature_version"] = 1;
  forest["version"] = 7;
  expect_contains(refusal(forest.dump()), "f.json: version: is 7");
}

TEST(ForestFileTest, DamageIsNamed) {
  const nlohmann::json good = nlohmann::json::parse(boosted().to_json());
  nlohmann::json forest = good;
  forest["features"][3]["name"] = "else";
  expect_contains(refusal(forest.dump()), "f.json: features[3]: name: is 'else'");
  forest = good;
  forest["trees"] = {{"learner", 1}};
  expect_contains(refusal(forest.dump()), "f.json: trees");
  forest = good;
  forest["rounds"] = 7;
  expect_contains(refusal(forest.dump()), "f.json: trees");
  forest = good;
  forest["surprise"] = 1;
  expect_contains(refusal(forest.dump()), "surprise");
  forest = good;
  forest.erase("label_noise");
  expect_contains(refusal(forest.dump()), "label_noise");
}

}  // namespace
}  // namespace dynpipe::interference
