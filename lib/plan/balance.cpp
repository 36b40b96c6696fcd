#include <fmt/format.h>

#include <limits>

#include "base/errors.hpp"
#include "plan/plan.hpp"

namespace dynpipe::plan {

std::vector<int> balanced_ends(const std::vector<double>& costs, const std::vector<int>& replicas) {
  const std::size_t layers = costs.size();
  const std::size_t parts = replicas.size();
  // best[p][i]: the dearest run when the first i layers make p runs.
  const double never = std::numeric_limits<double>::infinity();
  std::vector best(parts + 1, std::vector<double>(layers + 1, never));
  std::vector cut(parts + 1, std::vector<std::size_t>(layers + 1, 0));
  best[0][0] = 0;
  for (std::size_t p = 1; p <= parts; ++p) {
    for (std::size_t end = p; end <= layers; ++end) {
      double run = 0;
      for (std::size_t begin = end; begin-- > p - 1;) {
        run += costs[begin];
        const double dearest = std::max(best[p - 1][begin], run / replicas[p - 1]);
        if (dearest < best[p][end]) {
          best[p][end] = dearest;
          cut[p][end] = begin;
        }
      }
    }
  }
  std::vector<int> ends(parts);
  for (std::size_t p = parts, end = layers; p > 0; end = cut[p][end], --p) {
    ends[p - 1] = static_cast<int>(end) - 1;
  }
  return ends;
}

Plan equal_flops_plan(const model::Model& model, const PlanRequest& request) {
  const std::size_t stages = request.replicas.size();
  if (stages > model.layers.size()) {
    throw base::InputError(
        "", "stages",
        fmt::format("{} stages are more than the {} layers of {}; give some stage replicas", stages,
                    model.size(), model.file));
  }
  std::vector<double> costs;
  for (const model::Layer& layer : model.layers) {
    costs.push_back(static_cast<double>(layer.facts.forward_flops));
  }
  const std::vector<int> ends = balanced_ends(costs, request.replicas);

  Plan plan{request.schedule, request.policy, request.microbatches, {}};
  int layer = 0;
  int rank = 0;
  for (std::size_t s = 0; s < stages; ++s) {
    Stage stage{layer, ends[s], {}, {}, 0};
    for (int r = 0; r < request.replicas[s]; ++r) stage.ranks.push_back(rank++);
    stage.owners = spread_owners(std::vector<double>(stage.ranks.size(), 1.0), plan.microbatches);
    layer = stage.last + 1;
    plan.stages.push_back(std::move(stage));
  }
  const std::vector<int> warmups = default_warmups(plan.stages);
  for (std::size_t s = 0; s < stages; ++s) plan.stages[s].warmup = warmups[s];
  return plan;
}

}  // namespace dynpipe::plan
