// The forest and the monitor: how long one decision takes, and a reading.
// Lines of "decision FOREST PLANS UNIQUE MILLISECONDS" (median of 21) and "reading MICROSECONDS"
// (mean). "forest_bench FILE" asks that forest, otherwise one that is grown on made-up examples.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>

#include "app/text_file.hpp"
#include "base/random.hpp"
#include "interference/forest_training.hpp"
#include "interference/stage_scores.hpp"
#include "nn/layer.hpp"
#include "probe/activity.hpp"
#include "support/planner_cases.hpp"

namespace dynpipe {
namespace {

using namespace interference;

constexpr int k_layers = 16, k_ranks = 8;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

model::Model chain() {
  std::string layers;
  for (int i = 0; i < k_layers - 3; ++i) {
    layers += fmt::format(R"({{"name":"c{}","type":"conv2d","out_channels":{},"kernel":3,)"
                          R"("padding":1}},)",
                          i, 16 << (i % 3));
  }
  const std::string text = fmt::format(
      R"({{"name":"chain","input":[16,8,8],"layers":[{}{{"name":"g","type":"global_avgpool"}},)"
      R"({{"name":"f","type":"flatten"}},{{"name":"l","type":"linear","out_features":10}}],)"
      R"("loss":"softmax_cross_entropy"}})",
      layers);
  return model::parse_model(text, "chain", nn::layer_types());
}

/// Rows and slowdowns without meaning: a forest of the usual size takes the usual time.
Forest made_up(ForestKind kind) {
  const base::Philox random(1, "forest bench");
  std::vector<Example> examples(16'000);
  std::uint64_t draw = 0;
  for (Example& example : examples) {
    for (float& feature : example.row) feature = static_cast<float>(random.uniform(draw++));
    example.slowdown = static_cast<float>(1 + random.uniform(draw++));
  }
  return train(examples, default_settings(kind));
}

/// All ways to cut the layers into a stage for each rank in turn: stages of plan after plan.
std::vector<RankStage> all_plans() {
  std::vector<RankStage> stages;
  std::vector<int> cuts;
  const std::function<void(int)> choose = [&](int from) {
    if (cuts.size() == k_ranks - 1) {
      for (int s = 0; s < k_ranks; ++s) {
        const auto at = static_cast<std::size_t>(s);
        const int first = s == 0 ? 0 : cuts[at - 1];
        const int last = s + 1 == k_ranks ? k_layers - 1 : cuts[at] - 1;
        stages.push_back({s, first, last});
      }
      return;
    }
    for (int cut = from; cut < k_layers; ++cut) {
      cuts.push_back(cut);
      choose(cut + 1);
      cuts.pop_back();
    }
  };
  choose(1);
  return stages;
}

void time_decision(const std::string& name, const Forest& forest) {
  const model::Model model = chain();
  const model::Profile profile = testing::random_profile(k_layers, 1);
  std::vector<Environment> environments(k_ranks);
  for (int r = 0; r < k_ranks; ++r) {
    Environment& environment = environments[static_cast<std::size_t>(r)];
    environment.slowdown = 1 + 0.3 * r;
    environment.run_wait_share = 0.05 * r;
    environment.stage = stage_features(model, profile, 2 * r, 2 * r + 1, 8);
  }
  std::size_t unique = 0;
  std::size_t plans = 0;
  double best_s = 0;
  std::vector<double> times;
  for (int i = 0; i < 21; ++i) {
    times.push_back(seconds_of([&] {
      const std::vector<RankStage> stages = all_plans();
      StageScores scores(forest, model, profile, 8, environments);
      scores.score(stages);
      best_s = std::numeric_limits<double>::max();
      for (std::size_t plan = 0; plan < stages.size(); plan += k_ranks) {
        double period_s = 0;
        for (std::size_t s = 0; s < k_ranks; ++s) {
          period_s = std::max(period_s, scores.seconds(stages[plan + s]));
        }
        best_s = std::min(best_s, period_s);
      }
      unique = scores.scored();
      plans = stages.size() / k_ranks;
    }));
  }
  std::sort(times.begin(), times.end());
  fmt::print("decision {} {} {} {:.3f}\n", name, plans, unique, 1e3 * times[times.size() / 2]);
}

void time_reading() {
  const base::SteadyClock clock;
  probe::Activity activity(clock);
  constexpr int k_readings = 2000;
  const double s = seconds_of([&] {
    for (int i = 0; i < k_readings; ++i) activity.sample();
  });
  fmt::print("reading {:.3f}\n", 1e6 * s / k_readings);
}

}  // namespace
}  // namespace dynpipe

int main(int argc, char** argv) {
  using namespace dynpipe;
  if (argc > 1) {
    time_decision("shipped", interference::Forest::parse(app::read_text_file(argv[1]), argv[1]));
  }
  for (const auto kind : {interference::ForestKind::random, interference::ForestKind::boosted}) {
    time_decision(std::string(interference::name_of(kind)), made_up(kind));
  }
  time_reading();
}
