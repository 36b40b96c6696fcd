#include "app/planning.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

/// What a measurement depends on.
std::vector<std::string> circumstances(const TrainOptions& options, const std::string& model_text,
                                       const std::vector<std::int64_t>& samples,
                                       comm::World& world) {
  const int threads = profile_threads(options, world);
  return {model_text,
          profile_device(threads),
          profile_build(options),
          fmt::format("{} {}", options.batch, fmt::join(samples, ",")),
          std::string(nn::name_of(options.optimizer.kind)),
          fmt::format("{} of {} ranks on {}", world.local_size(), world.size(), world.host())};
}

/// What rank 0 finds in the cache, on all ranks.
std::optional<model::Profile> kept_profile(const ProfileCache& cache, const model::Model& model,
                                           comm::World& world) {
  std::string text;
  world.together([&] {
    if (world.rank() != 0) return;
    std::string problem;
    if (const auto kept = cache.read(problem)) text = model::to_json(*kept);
    if (!problem.empty()) {
      fmt::print(stderr, "dynpipe: warning: {}; its layers are measured anew\n", problem);
    }
    if (!text.empty()) {
      fmt::print("profile   {}: remove it to measure anew\n", cache.file());
      std::fflush(stdout);
    }
  });
  text = world.broadcast(text);
  if (text.empty()) return std::nullopt;
  return model::parse_profile(text, cache.file(), model);
}

/// A measurement that is not known better than this was disturbed: the next run measures again.
constexpr double k_most_uncertainty = 0.02;

void keep(const ProfileCache& cache, const MeasuredProfile& measured) {
  const ProfileQuality& quality = measured.quality;
  fmt::print("profile   measured in {:.1f} s, times known to {:.1f} %", quality.passed_s,
             100 * quality.uncertainty);
  if (quality.uncertainty > k_most_uncertainty) {
    fmt::print(": not kept, something disturbed it\n");
  } else {
    const std::string problem = cache.keep(measured.profile);
    fmt::print(", {} {}\n",
               problem.empty() ? "kept in" : "not kept:", problem.empty() ? cache.file() : problem);
  }
  std::fflush(stdout);
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
  const ProfileCache cache(model, circumstances(options, model_text, samples, world));
  if (auto kept = kept_profile(cache, model, world)) return kept;
  const MeasuredProfile measured = measure_profile({model, options, samples, k_measuring_s}, world);
  world.together([&] {
    if (world.rank() == 0) keep(cache, measured);
  });
  // As its file says it, so that the next run finds the same plan.
  return model::parse_profile(model::to_json(measured.profile), "the profile", model);
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
