#include "app/resume.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "app/weights_file.hpp"
#include "base/errors.hpp"
#include "model/object_reader.hpp"
#include "nn/parameters.hpp"

namespace dynpipe::app {
namespace {

using base::InputError;
using nlohmann::json;
namespace fs = std::filesystem;

/// Checkpoints to try, the best first; on rank 0. A path that is none is left to be refused.
std::vector<fs::path> candidates(const TrainOptions& options) {
  const CheckpointOptions& o = options.checkpoints;
  const fs::path place = o.resume == "auto" ? o.folder : o.resume;
  const bool is_checkpoint = fs::exists(place / io::k_digests_file);
  auto found = is_checkpoint ? std::vector<io::CheckpointName>{} : io::list_checkpoints(place);
  if (found.empty() && o.resume == "auto") return {};
  if (found.empty()) return {place};
  std::vector<fs::path> paths;
  std::transform(found.rbegin(), found.rend(), std::back_inserter(paths),
                 [](const io::CheckpointName& checkpoint) { return checkpoint.path; });
  return paths;
}

/// What is wrong with a checkpoint, found by all ranks together, each looking at some of its files;
/// "" if nothing is. The same on all.
std::string problem_of(const fs::path& path, comm::World& world) {
  std::string own;
  try {
    const io::Checkpoint checkpoint(path);
    int number = 0;
    for (const auto& [file, digest] : checkpoint.digests()) {
      if (number++ % world.size() == world.rank()) checkpoint.check(file);
    }
    if (world.rank() == 0) checkpoint.facts();
  } catch (const InputError& error) {
    own = error.what();
  }
  std::string first;
  for (const std::string& text : world.gather(own)) {
    if (first.empty()) first = text;
  }
  return world.broadcast(first);
}

/// The first of these that is whole.
std::optional<fs::path> first_whole(const std::vector<fs::path>& paths, comm::World& world) {
  std::string problems;
  for (std::size_t i = 0;; ++i) {
    const std::string path = world.broadcast(i < paths.size() ? paths[i].string() : "");
    if (path.empty()) break;
    const std::string problem = problem_of(path, world);
    if (problem.empty()) return path;
    problems += (problems.empty() ? "" : "; ") + problem;
    if (world.rank() == 0 && i + 1 < paths.size()) {
      fmt::print(stderr, "dynpipe: warning: {}; the checkpoint before it is tried\n", problem);
    }
  }
  world.together([&] {
    if (!problems.empty()) throw InputError("", "--resume", problems);
  });
  return std::nullopt;
}

/// The options of which a plan is made.
constexpr std::array k_plan_options{"plan",      "stages",   "algorithm", "kappa",
                                    "replicas",  "schedule", "weights",   "microbatches",
                                    "recompute", "profile",  "emulate"};
/// Settings that tell nothing of how the weights come about, or are compared elsewhere.
constexpr std::array k_unlike{"model",     "data",    "microbatches", "schedule", "weights",
                              "plan_file", "backend", "emulate",      "clock",    "batch",
                              "seed",      "dtype",   "optimizer"};

bool is_in(const auto& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string place_of(const ResumePoint& point) {
  return (point.path / io::k_index_file).string() + ": /config";
}

json config_of(const ResumePoint& point) {
  const std::string place = place_of(point);
  json config = model::parse_document(point.facts.config, place);
  for (const char* part : {"options", "settings", "data"}) {
    if (!config.is_object() || !config.contains(part) || !config[part].is_object()) {
      throw InputError(place, part, "is missing");
    }
  }
  return config;
}

}  // namespace

std::optional<ResumePoint> find_resume_point(const TrainOptions& options, comm::World& world) {
  if (options.checkpoints.resume.empty()) return std::nullopt;
  std::vector<fs::path> paths;
  world.together([&] {
    if (world.rank() == 0) paths = candidates(options);
  });
  const std::optional<fs::path> path = first_whole(paths, world);
  if (!path) return std::nullopt;
  ResumePoint point;
  world.together([&] {
    point.path = *path;
    point.facts = io::Checkpoint(*path).facts();
    point.progress = parse_run_progress(point.facts.progress, (*path / io::k_index_file).string());
  });
  return point;
}

void check_resume_model(const ResumePoint& point, const model::Model& model) {
  const std::string place = (point.path / io::k_index_file).string();
  const auto& held = point.facts.layers;
  if (held.size() != static_cast<std::size_t>(model.size())) {
    throw InputError(
        place, "layers",
        fmt::format("are {}, the model of {} has {}", held.size(), model.file, model.size()));
  }
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i].name == model.layers[i].spec.name) continue;
    throw InputError(place, "layers",
                     fmt::format("have '{}' where the model of {} has '{}'", held[i].name,
                                 model.file, model.layers[i].spec.name));
  }
}

bool keeps_plan(const ResumePoint& point, const TrainOptions& options, int ranks) {
  const json config = config_of(point);
  const json plan = model::parse_document(point.facts.plan, point.path.string());
  int then = 0;
  for (const json& stage : plan.value("stages", json::array())) {
    then += static_cast<int>(stage.value("ranks", json::array()).size());
  }
  if (then != ranks) return false;
  for (const char* name : k_plan_options) {
    const auto now = options.texts.find(name);
    const std::string before = config["options"].value(name, std::string());
    if ((now == options.texts.end() ? "" : now->second) != before) return false;
  }
  return options.plan.empty();  // a file may have changed
}

std::string checkpoint_config(const TrainOptions& options, const nlohmann::ordered_json& settings,
                              std::int64_t train_samples, const data::ShuffleWindow& window) {
  const auto bad_bytes = json::error_handler_t::replace;
  return json{{"options", options.texts},
              {"settings", json(settings)},
              {"data",
               {{"train_samples", train_samples},
                {"block_samples", window.block_samples},
                {"blocks", window.blocks}}}}
      .dump(-1, ' ', false, bad_bytes);
}

std::vector<std::string> compare_config(const ResumePoint& point, const std::string& config) {
  const json then = config_of(point);
  const json now = json::parse(config);
  const auto fixed = [&](const char* part, const char* name, const char* option) {
    const json before = then[part].value(name, json());
    if (before == now[part][name]) return;
    throw InputError(point.path.string(), option,
                     fmt::format("is {} now, but was {}: a run cannot go on with another (to start "
                                 "one from its weights: --init-from)",
                                 now[part][name].dump(), before.dump()));
  };
  fixed("settings", "batch", "--batch");
  fixed("settings", "seed", "--seed");
  fixed("settings", "dtype", "--dtype");
  fixed("settings", "optimizer", "--optimizer");
  fixed("data", "train_samples", "number of training samples");
  fixed("data", "block_samples", "block length of the data set");
  fixed("data", "blocks", "--shuffle-window, in blocks of the data set,");
  std::vector<std::string> changes;
  for (const auto& [name, value] : now["settings"].items()) {
    const json before = then["settings"].value(name, json());
    if (is_in(k_unlike, name) || before == value) continue;
    changes.push_back(
        fmt::format("{} is {} from here on, it was {}", name, value.dump(), before.dump()));
  }
  return changes;
}

void restore_state(const ResumePoint& point, const plan::Plan& plan, const model::Model& model,
                   const TrainOptions& options, device::Device& device, pipeline::Worker& worker) {
  const pipeline::WeightStore& store = worker.weights();
  const io::Checkpoint checkpoint(point.path);
  const bool same_plan = plan::to_json(plan, model) == point.facts.plan;
  std::map<std::string, io::File> shards;
  const auto shard_of = [&](const std::string& layer) -> const io::File& {
    const auto& layers = point.facts.layers;
    const auto entry = std::find_if(layers.begin(), layers.end(),
                                    [&](const io::CheckpointLayer& l) { return l.name == layer; });
    const auto found = shards.find(entry->file);
    if (found != shards.end()) return found->second;
    return shards.emplace(entry->file, checkpoint.open(entry->file)).first->second;
  };
  pipeline::WeightSnapshot state = store.make_snapshot(device);
  state.newest = state.oldest = point.facts.update;
  state.optimizer_steps = point.facts.optimizer_steps;
  const auto& parameters = store.parameters().entries();
  if (same_plan && !parameters.empty()) {
    const auto most = static_cast<std::int64_t>(state.versions.size()) - 1;
    const auto& first = parameters.front();
    while (
        state.newest - state.oldest < most &&
        shard_of(first.layer).has(io::version_path(state.oldest - 1, first.layer, first.tensor))) {
      --state.oldest;
    }
  }
  for (std::int64_t v = state.oldest; v <= state.newest; ++v) {
    const auto& views = state.versions[static_cast<std::size_t>(v - state.oldest)].views;
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto& [layer, name] = std::tie(parameters[i].layer, parameters[i].tensor);
      io::read_tensor(shard_of(layer), {v == state.newest ? io::parameter_path(layer, name)
                                                          : io::version_path(v, layer, name),
                                        views[i]});
    }
  }
  const std::vector<std::string> kinds = nn::state_names(options.optimizer);
  for (std::size_t s = 0; s < kinds.size(); ++s) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& [layer, name] = std::tie(parameters[i].layer, parameters[i].tensor);
      io::read_tensor(shard_of(layer),
                      {io::optimizer_path(kinds[s], layer, name), state.states[s].views[i]});
    }
  }
  const auto& statistics = store.statistics().entries();
  for (std::size_t i = 0; i < statistics.size(); ++i) {
    const auto& [layer, name] = std::tie(statistics[i].layer, statistics[i].tensor);
    io::read_tensor(shard_of(layer), {io::parameter_path(layer, name), state.statistics.views[i]});
  }
  worker.restore(state);
}

tensor::StateDict starting_state(const TrainOptions& options,
                                 std::span<const model::Layer> layers) {
  const CheckpointOptions& o = options.checkpoints;
  if (o.init_from.empty()) return nn::initial_state(layers, options.seed);
  const io::File file = open_weights(o.init_from);
  tensor::StateDict state;
  for (const model::Layer& layer : layers) {
    const std::span<const model::Layer> one(&layer, 1);
    state.merge(is_in(o.fresh_layers, layer.spec.name) ? nn::initial_state(one, options.seed)
                                                       : read_layers(file, one));
  }
  return state;
}

void check_init_from(const TrainOptions& options, const model::Model& model) {
  const CheckpointOptions& o = options.checkpoints;
  if (o.init_from.empty()) return;
  for (const std::string& name : o.fresh_layers) {
    const bool known = std::any_of(model.layers.begin(), model.layers.end(),
                                   [&](const model::Layer& l) { return l.spec.name == name; });
    if (!known) {
      throw InputError("", "--init-fresh", fmt::format("'{}' is no layer of {}", name, model.file));
    }
  }
  const io::File file = open_weights(o.init_from);
  for (const model::Layer& layer : model.layers) {
    if (is_in(o.fresh_layers, layer.spec.name)) continue;
    check_layer(file, layer);
  }
}

}  // namespace dynpipe::app
