#include "planner/baselines.hpp"

#include <algorithm>
#include <numeric>

#include "planner/partition.hpp"

namespace dynpipe::planner {
namespace {

constexpr std::string_view k_names[] = {"uniform", "flops",           "pipedream",
                                        "gpipe",   "dynpipe-authors", "data"};

/// As many stages as ranks and layers allow; where there are more ranks than layers, the first
/// stages have one more.
std::vector<int> even_replicas(int layers, int ranks) {
  const int stages = std::min(layers, ranks);
  std::vector<int> replicas(static_cast<std::size_t>(stages), ranks / stages);
  for (int s = 0; s < ranks % stages; ++s) ++replicas[static_cast<std::size_t>(s)];
  return replicas;
}

Parts parts_of(const std::vector<int>& ends, const std::vector<int>& replicas) {
  Parts parts;
  int layer = 0, rank = 0;
  for (std::size_t s = 0; s < ends.size(); ++s) {
    parts.push_back({layer, ends[s], rank, replicas[s], false});
    layer = ends[s] + 1;
    rank += replicas[s];
  }
  return parts;
}

Parts uniform_parts(int layers, int ranks) {
  const std::vector<int> replicas = even_replicas(layers, ranks);
  const auto stages = static_cast<int>(replicas.size());
  std::vector<int> ends;
  for (int s = 0; s < stages; ++s) {
    ends.push_back(static_cast<int>(static_cast<std::int64_t>(layers) * (s + 1) / stages) - 1);
  }
  return parts_of(ends, replicas);
}

Parts balanced_parts(const std::vector<double>& costs, int ranks) {
  const std::vector<int> replicas = even_replicas(static_cast<int>(costs.size()), ranks);
  return parts_of(plan::balanced_ends(costs, replicas), replicas);
}

std::optional<Parts> programmed_parts(CutRule rule, const model::Profile& profile,
                                      const Cluster& cluster, const BaselineRequest& request) {
  std::vector<int> order(static_cast<std::size_t>(request.ranks));
  std::iota(order.begin(), order.end(), 0);
  const int most =
      request.ranks <= 64 ? request.ranks : std::min(request.ranks, request.microbatches);
  const CostModel costs(profile, cluster, order, request.batch, request.microbatches, most);
  Objective objective;
  objective.recompute = false;
  const Estimator estimator(costs, objective);
  CutSettings settings;
  settings.rule = rule;
  auto best = Cutter(estimator, settings).best(1e-4);
  if (!best) return std::nullopt;
  return std::move(best->parts);
}

/// What PipeDream takes a cluster for.
Cluster of_equal_ranks(Cluster cluster) {
  for (ClusterRank& rank : cluster.ranks) {
    rank.slowdown = 1;
    rank.memory_bytes = ClusterRank{}.memory_bytes;
  }
  return cluster;
}

std::optional<Parts> parts_for(Baseline baseline, const model::Profile& profile,
                               const Cluster& cluster, const BaselineRequest& request) {
  const auto layers = static_cast<int>(profile.layers.size());
  const int ranks = request.ranks;
  switch (baseline) {
    case Baseline::uniform:
      return uniform_parts(layers, ranks);
    case Baseline::flops:
      if (request.layer_flops.empty()) return std::nullopt;
      return balanced_parts({request.layer_flops.begin(), request.layer_flops.end()}, ranks);
    case Baseline::gpipe: {
      const std::int64_t samples =
          (request.batch + request.microbatches - 1) / request.microbatches;
      std::vector<double> costs;
      for (int layer = 0; layer < layers; ++layer) {
        const model::LayerTimes times = profile.times(layer, samples);
        costs.push_back(times.forward_s + times.backward_input_s + times.backward_weight_s);
      }
      return balanced_parts(costs, ranks);
    }
    case Baseline::pipedream:
      return programmed_parts(CutRule::bottleneck, profile, of_equal_ranks(cluster), request);
    case Baseline::dynpipe_authors:
      return programmed_parts(CutRule::neighbours, profile, cluster, request);
    case Baseline::data:
      return Parts{{0, layers - 1, 0, ranks, false}};
  }
  return std::nullopt;
}

}  // namespace

std::string_view name_of(Baseline baseline) {
  return k_names[static_cast<std::size_t>(baseline)];
}

std::optional<Baseline> baseline_named(std::string_view name) {
  for (const Baseline baseline : k_baselines) {
    if (name_of(baseline) == name) return baseline;
  }
  return std::nullopt;
}

std::optional<plan::Plan> baseline_plan(Baseline baseline, const model::Profile& profile,
                                        const Cluster& cluster, const BaselineRequest& request) {
  const auto parts = parts_for(baseline, profile, cluster, request);
  if (!parts) return std::nullopt;
  plan::Plan plan{
      baseline == Baseline::gpipe ? plan::Schedule::gpipe : plan::Schedule::asynchronous,
      request.policy,
      request.microbatches,
      {}};
  for (const Part& part : *parts) {
    plan::Stage stage{
        part.first, part.last, std::vector<int>(static_cast<std::size_t>(part.replicas)), {}, 0};
    std::iota(stage.ranks.begin(), stage.ranks.end(), part.begin);
    stage.owners =
        plan::spread_owners(std::vector<double>(stage.ranks.size(), 1.0), request.microbatches);
    plan.stages.push_back(std::move(stage));
  }
  const std::vector<int> warmups = plan::default_warmups(plan.stages);
  for (std::size_t s = 0; s < warmups.size(); ++s) plan.stages[s].warmup = warmups[s];
  return plan;
}

}  // namespace dynpipe::planner
