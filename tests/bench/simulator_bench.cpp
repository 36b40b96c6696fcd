// Instructions that the simulator gets through in a second. Prints a line for each machine and
// plan: its name, ranks, instructions, seconds of the fastest of three runs.
//
// simulator_bench FATTREE.json
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>

#include "planner/simulator.hpp"
#include "schedule/schedule.hpp"
#include "support/simulated.hpp"
#include "support/stream_times.hpp"

namespace {

using namespace dynpipe;

double seconds_of(const plan::Plan& plan, const std::vector<schedule::Stream>& streams,
                  const planner::Workload& work, const planner::Cluster& cluster) {
  double least_s = 1e9;
  for (int round = 0; round < 3; ++round) {
    const auto began = std::chrono::steady_clock::now();
    const auto run = planner::simulate(plan, streams, work, cluster);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - began;
    if (run.updates_s.empty()) std::abort();
    least_s = std::min(least_s, taken.count());
  }
  return least_s;
}

void measure(const std::string& name, const plan::Plan& plan, const planner::Cluster& cluster) {
  // Forwards of 1 ms, messages of half a megabyte, gradients of four.
  std::vector<schedule::StepCosts> costs(plan.stages.size(), {1e-3, 1e-3, 1e-3});
  for (std::size_t s = 0; s < costs.size(); ++s) {  // no two stages alike
    costs[s].forward *= 1 + 0.01 * static_cast<double>(s % 17);
  }
  const auto work = testing::workload_for(plan, costs, 1 << 19, 1 << 22);
  const std::int64_t groups =
      std::max<std::int64_t>(4, 1'000'000 / (plan.ranks() * 6 * plan.microbatches));
  const auto streams = schedule::training_streams(plan, {0, groups});
  std::size_t instructions = 0;
  for (const auto& stream : streams) instructions += stream.size();
  fmt::print("{}: {} {} {:.6f}\n", name, plan.ranks(), instructions,
             seconds_of(plan, streams, work, cluster));
  std::fflush(stdout);
}

/// Equal stages of so many replicas each.
plan::Plan replicated(int stages, int replicas, int microbatches) {
  plan::Plan plan;
  plan.microbatches = microbatches;
  for (int s = 0; s < stages; ++s) {
    plan::Stage stage{s, s, {}, {}, 0};
    for (int r = 0; r < replicas; ++r) stage.ranks.push_back(s * replicas + r);
    stage.owners = plan::spread_owners(std::vector<double>(static_cast<std::size_t>(replicas), 1.0),
                                       microbatches);
    plan.stages.push_back(stage);
  }
  const auto warmups = plan::default_warmups(plan.stages);
  for (std::size_t s = 0; s < warmups.size(); ++s) plan.stages[s].warmup = warmups[s];
  return plan;
}

/// Leaves of 64 ranks under 16 spines, two to one.
planner::Cluster large_fat_tree(int leaves) {
  constexpr int k_under_leaf = 64, k_spines = 16;
  planner::Cluster cluster;
  const int ranks = leaves * k_under_leaf;
  cluster.switches.resize(static_cast<std::size_t>(leaves + k_spines));
  cluster.ranks.resize(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    cluster.links.push_back({"", rank, ranks + rank / k_under_leaf, 0.3e-6, 12.5e9});
  }
  for (int leaf = 0; leaf < leaves; ++leaf) {
    for (int spine = 0; spine < k_spines; ++spine) {
      cluster.links.push_back({"", ranks + leaf, ranks + leaves + spine, 0.09e-6, 25e9});
    }
  }
  return cluster;
}

planner::Cluster read(const std::string& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  return planner::parse_cluster(text.str(), file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  constexpr auto k_async = plan::Schedule::asynchronous;
  const auto ethernet = [](int ranks) {
    return planner::uniform_cluster(ranks, 1.2e-6, 2.94e9, 0.9);
  };
  for (const int ranks : {8, 64, 512, 4096}) {
    measure("pipeline, one switch", testing::straight_plan(k_async, ranks, 8), ethernet(ranks));
  }
  const planner::Cluster tree = read(argv[1]);
  measure("pipeline, fat tree", testing::straight_plan(k_async, 64, 8), tree);
  measure("8 stages of 8, fat tree", replicated(8, 8, 16), tree);
  measure("64 replicas, 8,064 messages an update, fat tree", replicated(1, 64, 64), tree);
  measure("pipeline, fat tree", testing::straight_plan(k_async, 4096, 8), large_fat_tree(64));
  planner::Cluster uneven = ethernet(64);
  uneven.jitter = 0.05;
  uneven.events = {{planner::Interference::Of::rank, 3, 0.1, 0.5, 2},
                   {planner::Interference::Of::link, 7, 0.2, 0.6, 3}};
  measure("pipeline, jitter and interference", testing::straight_plan(k_async, 64, 8), uneven);
  measure("512 stages of 8, one switch", replicated(512, 8, 16), ethernet(4096));
  return 0;
}
