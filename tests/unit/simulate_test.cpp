// dynpipe simulate: its options, what it tells, the trace that it writes.
#include "app/simulate.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "app/text_file.hpp"
#include "nn/layer.hpp"
#include "planner/workload.hpp"
#include "support/files.hpp"

namespace dynpipe::app {
namespace {

const std::string k_root = DYNPIPE_SOURCE_DIR;
const std::string k_model = k_root + "/models/lenet5.json";
const std::string k_cluster = k_root + "/data/clusters/8x-25gbe.json";

std::string run(const std::vector<std::string>& words) {
  return simulate(*parse_simulate_options(words));
}

std::string refusal(const std::vector<std::string>& words) {
  return testing::refusal_of([&] { run(words); });
}

TEST(SimulateTest, TellsPeriodSharesAndLimit) {
  const std::string text = run({"--model", k_model, "--cluster", k_cluster, "--ranks", "4",
                                "--stages", "3", "--replicas", "1,2,1", "--gflops", "10"});
  testing::expect_contains(text,
                           "Simulated: lenet5, 64 samples in 4 microbatches, async (2bw), 3 "
                           "stages on 4 ranks");
  testing::expect_contains(text, "by FLOPs at an assumed 10 GFLOP/s");
  testing::expect_contains(text, "cluster: 8x-25gbe");
  testing::expect_contains(text, "ms an update");
  testing::expect_contains(text, "images/s");
  testing::expect_contains(text, "limit: ");
}

TEST(SimulateTest, GivesTheSameTextEveryTime) {
  const std::vector<std::string> words = {"--model", k_model, "--cluster", k_cluster};
  EXPECT_EQ(run(words), run(words));
}

TEST(SimulateTest, TimesFollowTheAssumedRate) {
  // One rank: a group's forwards and backwards, one after another.
  const std::string slow = run({"--model", k_model, "--ranks", "1", "--gflops", "1"});
  const std::string fast = run({"--model", k_model, "--ranks", "1", "--gflops", "2"});
  const auto period_ms = [](const std::string& text) {
    const std::string before = "Simulated: ";
    return std::stod(text.substr(text.rfind(before) + before.size()));
  };
  EXPECT_NEAR(period_ms(slow) / period_ms(fast), 2, 0.01);
}

TEST(SimulateTest, TakesTimesFromAProfile) {
  const model::Model model =
      model::parse_model(read_text_file(k_model), k_model, nn::layer_types());
  model::Profile profile = planner::profile_by_flops(model, 50e9);
  profile.device = "a made-up device";
  profile.build = "none";
  profile.batch = 64;
  const testing::TemporaryFolder folder;
  const std::string file = (folder / "profile.json").string();
  replace_text_file(file, model::to_json(profile));
  const std::vector<std::string> words = {"--model", k_model, "--ranks", "3"};
  std::vector<std::string> with_profile = words;
  with_profile.insert(with_profile.end(), {"--profile", file});
  const std::string by_profile = run(with_profile);
  testing::expect_contains(by_profile, "a made-up device");
  const std::string by_flops = run(words);
  EXPECT_EQ(by_profile.substr(by_profile.find("waits for")),
            by_flops.substr(by_flops.find("waits for")));
}

TEST(SimulateTest, TakesTheLinksOfAProfileWhereNoClusterIsDescribed) {
  const model::Model model =
      model::parse_model(read_text_file(k_model), k_model, nn::layer_types());
  model::Profile profile = planner::profile_by_flops(model, 50e9);
  profile.device = "a made-up device";
  profile.build = "none";
  profile.batch = 64;
  const testing::TemporaryFolder folder;
  const std::string file = (folder / "profile.json").string();
  replace_text_file(file, model::to_json(profile));
  testing::expect_contains(refusal({"--model", k_model, "--profile", file}),
                           "--ranks: is missing: " + file + " has no links");
  profile.links = {{0, 1, 1e-6, 4e9, 3e9, 0.5}};
  replace_text_file(file, model::to_json(profile));
  testing::expect_contains(
      run({"--model", k_model, "--profile", file}),
      "2 stages on 2 ranks\ncluster: the links of " + file + ", ranks that nap");
  testing::expect_contains(run({"--model", k_model, "--profile", file, "--ranks", "3"}),
                           "3 stages on 3 ranks\ncluster: the links of " + file);
}

TEST(SimulateTest, RefusesByName) {
  testing::expect_contains(refusal({"--ranks", "2"}), "--model: is missing");
  testing::expect_contains(refusal({"--model", k_model}), "--ranks: is missing");
  testing::expect_contains(refusal({"--model", k_model, "--cluster", k_cluster, "--ranks", "9"}),
                           "--ranks: is 9, but");
  testing::expect_contains(refusal({"--model", k_model, "--ranks", "2", "--updates", "0"}),
                           "--updates: must be 1 to 1000000");
  testing::expect_contains(
      refusal({"--model", k_model, "--ranks", "5", "--updates", "1000000", "--microbatches", "64"}),
      "--updates: 1000000 of 64 microbatches on 5 stages are too many");
  testing::expect_contains(refusal({"--model", k_model, "--ranks", "2", "--gflops", "0"}),
                           "--gflops: must be above 0");
  testing::expect_contains(
      refusal({"--model", k_model, "--ranks", "2", "--profile", "p.json", "--gflops", "3"}),
      "--gflops: means nothing with --profile");
  testing::expect_contains(
      refusal({"--model", k_model, "--ranks", "2", "--plan", "p.json", "--stages", "2"}),
      "--stages: contradicts --plan");
  testing::expect_contains(refusal({"--model", k_model, "--ranks", "2", "--profile", "none.json"}),
                           "none.json: cannot be read");
  testing::expect_contains(refusal({"--model", k_model, "--ranks", "3", "--replicas", "1,1"}),
                           "--replicas: asks for 2 ranks");
}

TEST(SimulateTest, WritesATraceOfEveryStepAndMessage) {
  const testing::TemporaryFolder folder;
  const std::string file = (folder / "trace.json").string();
  run({"--model", k_model, "--cluster", k_cluster, "--ranks", "2", "--updates", "3",
       "--microbatches", "2", "--trace-out", file});
  const auto trace = nlohmann::json::parse(read_text_file(file));
  std::map<std::string, int> spans;
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> threads;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const double start = event["ts"];
    const double duration = event["dur"];
    EXPECT_GE(duration, 0);
    ++spans[fmt::format("{} {}", event["pid"].get<int>(), event["name"].get<std::string>())];
    threads[{event["pid"], event["tid"]}].emplace_back(start, start + duration);
  }
  for (const int rank : {0, 1}) {
    for (int k = 0; k < 6; ++k) {
      EXPECT_EQ(spans[fmt::format("{} F {}", rank, k)], 1);
      EXPECT_EQ(spans[fmt::format("{} B {}", rank, k)], 1);
    }
  }
  EXPECT_EQ(spans["1 activation 5 from rank 0"], 1);
  EXPECT_EQ(spans["0 gradient 5 from rank 1"], 1);
  // What one thread shows lies side by side.
  for (auto& [thread, list] : threads) {
    std::sort(list.begin(), list.end());
    for (std::size_t i = 1; i < list.size(); ++i) {
      EXPECT_LE(list[i - 1].second, list[i].first + 0.002);
    }
  }
}

}  // namespace
}  // namespace dynpipe::app
