// What the run's news are made of, and what the files that keep them hold.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/metrics_file.hpp"
#include "app/run_monitor.hpp"
#include "app/text_file.hpp"
#include "base/errors.hpp"
#include "support/manual_clock.hpp"
#include "support/random_scenario.hpp"

namespace dynpipe::app {
namespace {

using testing::ManualClock;

plan::Plan two_stages() {
  return plan::equal_flops_plan(
      testing::plain_model(),
      {plan::Schedule::asynchronous, plan::WeightPolicy::double_buffer, 2, {2, 1}});
}

/// Keeps what it is told.
struct Notebook final : RunSink {
  void on_group(const GroupEvent& event) override {
    groups.push_back(event);
    loads.assign(event.loads.begin(), event.loads.end());
  }
  void on_evaluation(const EvaluationEvent& event) override { evaluations.push_back(event); }

  std::vector<GroupEvent> groups;
  std::vector<StageLoad> loads;  ///< of the last group
  std::vector<EvaluationEvent> evaluations;
};

class RunMonitorTest : public ::testing::Test {
 protected:
  RunMonitorTest() { monitor.add(notebook); }

  void group(std::int64_t index, double loss_sum, double correct) {
    clock.pass(0.5);
    monitor.on_group({index, loss_sum, correct}, 10, 0.1);
  }

  plan::Plan plan = two_stages();
  ManualClock clock;
  RunMonitor monitor{{2, 3, 5}, plan, clock};
  Notebook notebook;
};

TEST_F(RunMonitorTest, GroupsHaveTheirOwnMeansAndTheEpochs) {
  monitor.begin_epoch(0);
  group(0, 20, 1);
  group(1, 10, 4);
  const GroupEvent& event = notebook.groups.back();
  EXPECT_EQ(event.epoch, 1);
  EXPECT_EQ(event.update, 2);
  EXPECT_DOUBLE_EQ(event.loss, 1);
  EXPECT_DOUBLE_EQ(event.accuracy, 0.4);
  EXPECT_DOUBLE_EQ(event.epoch_loss, 1.5);
  EXPECT_DOUBLE_EQ(event.epoch_accuracy, 0.25);
  EXPECT_DOUBLE_EQ(event.time_s, 1);
  EXPECT_NEAR(event.samples_per_s, 20, 1e-9);
  EXPECT_NEAR(event.eta_s, 1.5, 1e-9);
}

TEST_F(RunMonitorTest, TimeOfEvaluationsIsNotThatOfUpdates) {
  monitor.begin_epoch(0);
  for (int i = 0; i < 3; ++i) group(i, 10, 1);
  clock.pass(100);
  monitor.end_epoch(1, 0.5);
  monitor.begin_epoch(1);
  group(3, 10, 1);
  EXPECT_NEAR(notebook.groups.back().samples_per_s, 20, 1e-9);
  EXPECT_NEAR(notebook.groups.back().eta_s, 0.5 + 100, 1e-9);
  EXPECT_DOUBLE_EQ(monitor.update_times().p90_s, 0.5);
  EXPECT_DOUBLE_EQ(notebook.evaluations[0].result.train_s, 1.5);
  EXPECT_DOUBLE_EQ(notebook.evaluations[0].result.wall_s, 101.5);
}

TEST_F(RunMonitorTest, TheBestEvaluationHasTheHighestAccuracyThenTheLowestLoss) {
  std::vector<bool> best;
  for (const auto& [loss, accuracy] :
       {std::pair{1.0, 0.5}, std::pair{0.5, 0.5}, std::pair{0.1, 0.4}, std::pair{0.5, 0.5},
        std::pair{2.0, 0.6}}) {
    monitor.begin_epoch(0);
    group(0, 1, 1);
    monitor.end_epoch(loss, accuracy);
    best.push_back(notebook.evaluations.back().best);
  }
  EXPECT_EQ(best, (std::vector{true, true, false, false, true}));
}

TEST_F(RunMonitorTest, OnlyAnEpochThatEndsEarlyIsCutShort) {
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    monitor.begin_epoch(epoch);
    for (std::int64_t g = 3 * epoch; g < std::min<std::int64_t>(5, 3 * epoch + 3); ++g) {
      group(g, 1, 1);
    }
    monitor.end_epoch(1, 0.5);
  }
  EXPECT_FALSE(notebook.evaluations[0].cut_short);
  EXPECT_TRUE(notebook.evaluations[1].cut_short);
}

TEST_F(RunMonitorTest, TheLoadOfAStageIsTheMeanOverItsRanks) {
  monitor.begin_epoch(0);
  pipeline::StageTimes times;
  times.total = 1;
  times.forward = 0.9;
  monitor.on_times({plan.stages[0].ranks[0], 0, times});
  times.forward = 0.5;
  times.wait_send = 0.25;
  monitor.on_times({plan.stages[0].ranks[1], 0, times});
  group(0, 1, 1);
  ASSERT_EQ(notebook.loads.size(), 2U);
  EXPECT_NEAR(notebook.loads[0].busy, 0.7, 1e-9);
  EXPECT_NEAR(notebook.loads[0].waiting, 0.125, 1e-9);
  EXPECT_TRUE(notebook.loads[0].known);
  EXPECT_FALSE(notebook.loads[1].known);
}

class MetricsFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder = ::testing::TempDir() + "metrics_file_test." + std::to_string(::getpid());
    std::filesystem::create_directory(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  static GroupEvent some_group(std::span<const StageLoad> loads) {
    GroupEvent event;
    event.epoch = 1;
    event.update = 7;
    event.samples = 64;
    event.loss = 0.1 + 0.2;
    event.accuracy = 1.0 / 3;
    event.learning_rate = 0.05;
    event.time_s = 1.25;
    event.samples_per_s = 1000;
    event.loads = loads;
    return event;
  }

  std::vector<nlohmann::json> records(const std::string& file) const {
    std::istringstream lines(read_text_file(file));
    std::vector<nlohmann::json> found;
    for (std::string line; std::getline(lines, line);) found.push_back(nlohmann::json::parse(line));
    return found;
  }

  std::string folder;
  ManualClock clock;
  std::vector<std::string> warnings;
  std::function<void(const std::string&)> warn = [this](const std::string& text) {
    warnings.push_back(text);
  };
};

TEST_F(MetricsFileTest, JsonHasTheVeryNumbers) {
  const std::vector<StageLoad> loads{{0, 0.875, 0.1, true}, {1, 0, 0, false}};
  MetricsFile file(folder + "/run.jsonl", 2, clock, warn);
  file.on_group(some_group(loads));
  file.on_end(RunStatus::failed, "no luck");
  const auto found = records(folder + "/run.jsonl");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0]["kind"], "update");
  EXPECT_EQ(found[0]["update"], 7);
  EXPECT_EQ(found[0]["loss"].get<double>(), 0.1 + 0.2);
  EXPECT_EQ(found[0]["accuracy"].get<double>(), 1.0 / 3);
  EXPECT_EQ(found[0]["busy"], nlohmann::json::parse("[0.875, null]"));
  EXPECT_EQ(found[1],
            nlohmann::json::parse(R"({"kind": "end", "status": "failed", "reason": "no luck"})"));
}

TEST_F(MetricsFileTest, WhatIsNotFiniteIsNullInJsonAndEmptyInCsv) {
  GroupEvent event = some_group({});
  event.loss = std::numeric_limits<double>::quiet_NaN();
  event.accuracy = std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(MetricsFormat::for_file("a.jsonl", 0)->update(event));
  EXPECT_TRUE(json["loss"].is_null());
  EXPECT_TRUE(json["accuracy"].is_null());
  EXPECT_EQ(MetricsFormat::for_file("a.csv", 0)->update(event),
            "update,7,1,1.25,,,0.05,64,1000,,,\n");
}

TEST_F(MetricsFileTest, CsvRowsHaveTheColumnsOfTheHeader) {
  const auto columns = [](const std::string& line) {
    return std::count(line.begin(), line.end(), ',');
  };
  const std::vector<StageLoad> loads{{0, 0.875, 0.1, true}, {1, 0.5, 0.5, true}};
  const auto format = MetricsFormat::for_file("a.csv", 2);
  EXPECT_EQ(columns(format->update(some_group(loads))), columns(format->header()));
  EXPECT_EQ(columns(format->evaluation({})), columns(format->header()));
}

TEST_F(MetricsFileTest, WholeLinesAreWrittenEverySecond) {
  const std::string name = folder + "/run.jsonl";
  MetricsFile file(name, 0, clock, warn);
  file.on_group(some_group({}));
  EXPECT_EQ(read_text_file(name), "");
  clock.pass(1);
  file.on_group(some_group({}));
  EXPECT_EQ(records(name).size(), 2U);
  file.on_group(some_group({}));
  file.on_evaluation_begin();
  EXPECT_EQ(records(name).size(), 3U);
}

TEST_F(MetricsFileTest, AFullDiskIsOneWarning) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  MetricsFile file("/dev/full", 0, clock, warn);
  for (int i = 0; i < 5; ++i) {
    clock.pass(1);
    file.on_group(some_group({}));
  }
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("No space left on device"), std::string::npos) << warnings[0];
}

TEST_F(MetricsFileTest, WhatCannotBeWrittenIsKnownAtTheStart) {
  EXPECT_THROW(MetricsFile(folder + "/nowhere/run.jsonl", 0, clock, warn), base::InputError);
}

TEST_F(MetricsFileTest, AReplacedFileIsNeverPartlyWritten) {
  const std::string name = folder + "/summary.json";
  replace_text_file(name, "first");
  std::ifstream reader(name);  // opened before: still sees all of what was there
  replace_text_file(name, "second");
  std::string seen;
  reader >> seen;
  EXPECT_EQ(seen, "first");
  EXPECT_EQ(read_text_file(name), "second");
  EXPECT_FALSE(std::filesystem::exists(name + ".part"));
}

TEST_F(MetricsFileTest, RefusalsSayTheSystemsReason) {
  const auto reason = [](auto&& action) -> std::string {
    try {
      action();
    } catch (const base::InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(reason([&] { read_text_file(folder + "/nowhere"); }).find("No such file or directory"),
            std::string::npos);
  EXPECT_NE(reason([&] { read_text_file(folder); }).find("Is a directory"), std::string::npos);
  EXPECT_NE(reason([&] { replace_text_file(folder, "x"); }).find("Is a directory"),
            std::string::npos);
  EXPECT_NE(reason([&] { replace_text_file(folder + "/a/b", "x"); }).find("No such file"),
            std::string::npos);
}

}  // namespace
}  // namespace dynpipe::app
