// The data set of the forest: its file, the examples that are made of it, what is refused.

#include <gtest/gtest.h>

#include <cmath>

#include "app/forest_examples.hpp"
#include "app/interval_environment.hpp"
#include "io/hdf5.hpp"
#include "support/files.hpp"

namespace dynpipe::app {
namespace {

using testing::expect_contains;
using testing::refusal_of;

Measurement slice(int window, int disturbance, int stage, double arithmetic_s, double weights_s) {
  Measurement m;
  m.window = window;
  m.disturbance = disturbance;
  m.stage = stage;
  m.groups = 10;
  m.seconds = {arithmetic_s, weights_s, 0};
  m.activity.interval_s = 0.25;
  m.activity.cpu_s = 0.1;
  m.activity.run_wait_s = disturbance == 0 ? 0 : 0.1;
  return m;
}

/// Two stages, one of each mix: a quiet window, and one in which the first takes two times and the
/// second three times as long.
ForestData small() {
  ForestData data;
  data.name = "small.h5";
  data.machine = "a machine";
  data.slice_s = 0.25;
  data.collected_s = 4;
  data.stages = {{"a[0-1] x8", "a", {8e6, 1e3, 1e5}, 100, 1000},
                 {"b[0-1] x8", "b", {1e6, 1e6, 1e5}, 1e6, 1000}};
  data.disturbances = {"none", "hog x1 same core"};
  for (int turn = 0; turn < 2; ++turn) {
    data.measurements.push_back(slice(0, 0, 0, 1e-3, 0));
    data.measurements.push_back(slice(0, 0, 1, 1e-3, 1e-3));
  }
  data.measurements.push_back(slice(1, 1, 0, 2.0e-3, 0));
  data.measurements.push_back(slice(1, 1, 1, 2e-3, 4e-3));
  data.measurements.push_back(slice(1, 1, 0, 2.2e-3, 0));
  data.measurements.push_back(slice(1, 1, 1, 2e-3, 4e-3));
  return data;
}

TEST(ForestExamplesTest, PairsOfSlicesOfAWindow) {
  const ForestExamples made = examples_of(small());
  EXPECT_EQ(made.mixes, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(made.examples.size(), 16U) << "each of 8 slices with 2 stages";
  int checked = 0;
  for (const interference::Example& example : made.examples) {
    if (example.cause == 0) {
      EXPECT_FLOAT_EQ(example.row[0], 0);
      EXPECT_FLOAT_EQ(example.slowdown, 1);
      continue;
    }
    const double measured = std::exp2(example.row[0]);
    if (example.mix_now == 1) {
      EXPECT_NEAR(measured, 3, 1e-6);
    }
    if (example.mix == 1) {
      EXPECT_NEAR(example.slowdown, 3, 1e-6);
    }
    if (example.mix == 0 && example.mix_now == 1) {
      EXPECT_NEAR(example.slowdown, 2.1, 1e-6) << "the mean of both slices";
    }
    if (example.mix == 0 && example.mix_now == 0) {
      EXPECT_NEAR(example.slowdown + measured, 4.2, 1e-6) << "the other slice";
    }
    ++checked;
  }
  EXPECT_EQ(checked, 8);
  EXPECT_NEAR(made.label_noise, (std::abs(2.0 / 2.2 - 1) + 0) / 2, 1e-9);
  EXPECT_EQ(made.quiet_noise, 0);
}

TEST(ForestExamplesTest, NothingQuietOrNothingDisturbedIsRefused) {
  ForestData data = small();
  data.measurements.erase(data.measurements.begin(), data.measurements.begin() + 4);
  expect_contains(refusal_of([&] { examples_of(data); }),
                  "small.h5: /measurements: none is of stage a[0-1] x8 undisturbed");
  data = small();
  data.measurements.resize(4);
  expect_contains(refusal_of([&] { examples_of(data); }), "while something disturbed it");
}

TEST(ForestDataTest, AFileHoldsAllOfIt) {
  const testing::TemporaryFolder folder;
  const std::string file = folder / "data.h5";
  write_forest_data(small(), file);
  const ForestData read = read_forest_data(file);
  EXPECT_EQ(read.machine, "a machine");
  EXPECT_EQ(read.disturbances, small().disturbances);
  EXPECT_EQ(read.stages[1].name, "b[0-1] x8");
  EXPECT_EQ(read.stages[1].parameter_bytes, 1e6);
  EXPECT_EQ(read.collected_s, 4);
  ASSERT_EQ(read.measurements.size(), 8U);
  EXPECT_EQ(read.measurements[6].seconds.arithmetic, 2.2e-3);
  EXPECT_EQ(read.measurements[6].activity.run_wait_s, 0.1);
  EXPECT_FALSE(base::is_known(read.measurements[6].activity.throttled_s)) << "unknown, not zero";
}

TEST(ForestDataTest, WhatIsNoDataSetIsRefused) {
  const testing::TemporaryFolder folder;
  const std::string file = folder / "data.h5";
  expect_contains(refusal_of([&] { read_forest_data(file); }), file);
  ForestData data = small();
  data.measurements[2].stage = 7;
  write_forest_data(data, file);
  expect_contains(refusal_of([&] { read_forest_data(file); }),
                  "/measurements[2]: has a stage or disturbance that is not there");
  {
    io::File other = io::File::create(file);
    other.set_attribute("/", "format", std::string("another"));
    other.close();
  }
  expect_contains(refusal_of([&] { read_forest_data(file); }), "format: ");
}

TEST(IntervalEnvironmentTest, SharesDoNotDependOnIdling) {
  probe::ActivitySample activity;
  activity.interval_s = 100;
  activity.cpu_s = 2;
  activity.run_wait_s = 6;
  activity.throttled_s = 4;
  activity.core_busy_s = 9;
  activity.core_stolen_s = 1;
  activity.involuntary_switches = 500;
  interference::Environment environment;
  add_activity(environment, activity);
  EXPECT_DOUBLE_EQ(environment.run_wait_share, 0.25) << "held up by the quota is not waiting";
  EXPECT_DOUBLE_EQ(environment.throttled_share, 0.5);
  EXPECT_DOUBLE_EQ(environment.stolen_share, 0.1);
  EXPECT_DOUBLE_EQ(environment.switches_per_s, 250);
  EXPECT_FALSE(base::is_known(environment.faults_per_s));
  environment.slowdown = 4.4;
  EXPECT_NEAR(core_slowdown(environment), 4.4 * 0.25 * 0.9, 1e-12);
}

TEST(IntervalEnvironmentTest, WhatTheOsDoesNotTellStaysUnknown) {
  interference::Environment environment;
  add_activity(environment, probe::ActivitySample{});
  EXPECT_FALSE(base::is_known(environment.run_wait_share));
  EXPECT_FALSE(base::is_known(environment.throttled_share));
  EXPECT_EQ(core_slowdown(environment), 1);
}

}  // namespace
}  // namespace dynpipe::app
