#include "support/planner_cases.hpp"

#include <cmath>
#include <functional>
#include <numeric>

#include "base/random.hpp"
#include "planner/cost_model.hpp"
#include "planner/judge.hpp"

namespace dynpipe::testing {
namespace {

using planner::Cluster;
using planner::SearchRequest;

/// Every way to cut `layers` layers into stages on `ranks` ranks.
void each_cut(int layers, int ranks, bool replicas,
              const std::function<void(const std::vector<plan::Stage>&)>& visit) {
  std::vector<plan::Stage> stages;
  const std::function<void(int, int)> go = [&](int layer, int rank) {
    if (layer == layers && rank == ranks) return visit(stages);
    if (layer == layers || rank == ranks) return;
    for (int last = layer; last < layers; ++last) {
      for (int count = 1; count <= (replicas ? ranks - rank : 1); ++count) {
        plan::Stage stage{layer, last, std::vector<int>(static_cast<std::size_t>(count)), {}, 0};
        std::iota(stage.ranks.begin(), stage.ranks.end(), rank);
        stages.push_back(stage);
        go(last + 1, rank + count);
        stages.pop_back();
      }
    }
  };
  go(0, 0);
}

/// Every falling row of warm-ups whose steps are at most `spare` above the least, 1.
void each_warmup(plan::Plan& plan, int spare, const std::function<void()>& visit) {
  const std::function<void(int)> go = [&](int s) {
    if (s < 0) return visit();
    const auto at = static_cast<std::size_t>(s);
    for (int step = 1; step <= 1 + spare; ++step) {
      plan.stages[at].warmup = plan.stages[at + 1].warmup + step;
      go(s - 1);
    }
  };
  plan.stages.back().warmup = 0;
  go(plan.size() - 2);
}

}  // namespace

model::Profile random_profile(int layers, std::uint64_t seed) {
  const base::Philox random(seed, "profile");
  const auto between = [&](std::uint64_t draw, double low, double high) {
    return low * std::pow(high / low, random.uniform(draw));
  };
  model::Profile profile;
  profile.model = "random";
  profile.samples = {1};
  for (int i = 0; i < layers; ++i) {
    const std::uint64_t draw = 16 * static_cast<std::uint64_t>(i);
    model::LayerProfile layer;
    layer.name = "layer" + std::string(1, static_cast<char>('a' + i % 26));
    const double forward = between(draw, 1e-4, 1e-3);
    layer.times = {
        {forward, forward * between(draw + 1, 0.8, 1.3), forward * between(draw + 2, 0.8, 1.3)}};
    layer.update_s = random.uniform(draw + 3) * 3e-4;
    layer.output_bytes = static_cast<std::int64_t>(between(draw + 4, 1e4, 1e6));
    layer.kept_bytes = static_cast<std::int64_t>(between(draw + 5, 1e5, 4e6));
    layer.parameter_bytes = static_cast<std::int64_t>(between(draw + 6, 1e4, 1e6));
    layer.state_bytes = layer.parameter_bytes;
    profile.layers.push_back(layer);
  }
  return profile;
}

model::Profile equal_profile(int layers, model::LayerTimes times, std::int64_t output_bytes,
                             std::int64_t parameter_bytes) {
  model::Profile profile;
  profile.model = "equal";
  profile.samples = {1};
  model::LayerProfile layer;
  layer.times = {times};
  layer.output_bytes = output_bytes;
  layer.kept_bytes = output_bytes;
  layer.parameter_bytes = parameter_bytes;
  for (int i = 0; i < layers; ++i) {
    layer.name = "layer" + std::string(1, static_cast<char>('a' + i % 26));
    profile.layers.push_back(layer);
  }
  return profile;
}

Cluster random_cluster(int ranks, std::uint64_t seed) {
  const base::Philox random(seed, "cluster");
  Cluster cluster = planner::uniform_cluster(ranks, 2e-5, 1e9);
  for (int rank = 0; rank < ranks; ++rank) {
    cluster.ranks[static_cast<std::size_t>(rank)].slowdown =
        1 + 2 * random.uniform(2 * static_cast<std::uint64_t>(rank));
  }
  for (std::size_t link = 0; link < cluster.links.size(); ++link) {
    cluster.links[link].bytes_per_s = 1e8 * std::pow(100.0, random.uniform(1000 + link));
  }
  return cluster;
}

Optimum brute_force(const model::Profile& profile, const Cluster& cluster,
                    const SearchRequest& request, int spare) {
  planner::Judge judge(profile, cluster, request.batch, request.kappa);
  Optimum optimum{std::numeric_limits<double>::infinity(), {}};
  const auto sizes = planner::relative_sizes(request.batch, request.microbatches.front());
  plan::Plan plan{
      request.schedules.front(), request.policies.front(), request.microbatches.front(), {}};
  each_cut(static_cast<int>(profile.layers.size()), cluster.size(), request.replicas,
           [&](const std::vector<plan::Stage>& stages) {
             plan.stages = stages;
             int most = 1;
             for (plan::Stage& stage : plan.stages) {
               std::vector<double> slowdowns;
               for (int rank : stage.ranks) {
                 slowdowns.push_back(cluster.ranks[static_cast<std::size_t>(rank)].slowdown);
               }
               stage.owners = planner::deal_out(slowdowns, sizes).owners;
               most = std::max(most, stage.replicas());
             }
             each_warmup(plan, spare + 2 * (most - 1), [&] {
               const double objective = judge(plan).objective;
               if (objective < optimum.objective) optimum = {objective, plan};
             });
           });
  return optimum;
}

}  // namespace dynpipe::testing
