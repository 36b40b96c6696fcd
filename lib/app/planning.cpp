#include "app/planning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "app/backend.hpp"
#include "app/measured_profile.hpp"
#include "app/memory_forecast.hpp"
#include "app/profile_cache.hpp"
#include "app/profile_options.hpp"
#include "app/text_file.hpp"
#include "pipeline/stage_memory.hpp"
#include "planner/search.hpp"

namespace dynpipe::app {
namespace {

/// Seconds to measure layers for.
constexpr double k_measuring_s = 3;

/// Whether every rank of a host has room for the whole model, as a profile needs it.
bool fits_whole(const TrainOptions& options, const model::Model& model, std::int64_t samples,
                comm::World& world) {
  plan::Plan whole;
  whole.microbatches = options.microbatches;
  whole.stages.resize(1);
  whole.stages[0].last = model.size() - 1;
  whole.stages[0].ranks = {0};
  whole.stages[0].owners.assign(static_cast<std::size_t>(options.microbatches), 0);
  whole.stages[0].warmup = 1;
  const auto ops = make_ops(options, 1);
  const auto needed = static_cast<double>(
      pipeline::stage_memory(model, whole, 0, samples, options.optimizer, *ops).total());
  const RankRoom room = own_room(world.host(), resident_bytes());
  const double share = static_cast<double>(room.available_bytes) / world.local_size();
  return world.sum({needed > share ? 1.0 : 0.0})[0] == 0;
}

}  // namespace

bool plans_by_profile(const TrainOptions& options, int ranks) {
  return options.plan.empty() && options.replicas.empty() && options.algorithm == "dynpipe" &&
         ranks > 1;
}

std::optional<model::Profile> profile_for_run(const TrainOptions& options,
                                              const model::Model& model,
                                              const std::string& model_text, comm::World& world) {
  if (!options.profile.empty()) {
    const std::string text = shared_text(options.profile, world);
    std::optional<model::Profile> profile;
    world.together([&] { profile = model::parse_profile(text, options.profile, model); });
    return profile;
  }
  std::vector<std::int64_t> samples = microbatch_sizes(options.batch, {options.microbatches});
  if (!fits_whole(options, model, samples.back(), world)) {
    if (world.rank() == 0) {
      fmt::print(stderr,
                 "dynpipe: warning: the whole model does not fit into the memory of one rank: its "
                 "layers are not measured but cut by FLOPs (--algorithm flops)\n");
    }
    return std::nullopt;
  }
  const auto warn = [](const std::string& text) {
    fmt::print(stderr, "dynpipe: warning: {}\n", text);
  };
  bool told = world.rank() != 0;
  const auto tell_once = [&](const ProfileProgress&) {
    if (told) return;
    told = true;
    fmt::print("profile   measuring what layers take here, for some {:.0f} s\n", k_measuring_s);
    std::fflush(stdout);
  };
  return cached_profile({model, options, samples, k_measuring_s}, model_text, world,
                        ProfileCache(ProfileCache::default_folder()), false, warn, tell_once);
}

plan::Plan best_plan(const TrainOptions& options, const model::Model& model,
                     const model::Profile& profile, const planner::Cluster& cluster) {
  planner::SearchRequest request;
  request.batch = options.batch;
  request.microbatches = {options.microbatches};
  request.schedules = {options.schedule};
  request.policies = {options.policy};
  request.kappa = options.kappa;
  request.recompute = false;
  request.stages =
      options.any_stages ? 0 : options.stages.value_or(std::min(cluster.size(), model.size()));
  for (const model::Layer& layer : model.layers) {
    request.layer_flops.push_back(static_cast<double>(layer.facts.forward_flops));
  }
  return planner::search(profile, cluster, request).plan;
}

}  // namespace dynpipe::app
