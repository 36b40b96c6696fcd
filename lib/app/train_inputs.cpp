#include "app/train_inputs.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <tuple>

#include "app/planning.hpp"
#include "app/profiled_cluster.hpp"
#include "app/text_file.hpp"
#include "base/counted.hpp"
#include "base/errors.hpp"
#include "data/data_set.hpp"
#include "nn/layer.hpp"
#include "schedule/checker.hpp"

namespace dynpipe::app {
namespace {

using base::counted;
using base::InputError;

/// Ranks of each stage where no plan file says them: all ranks, the first stages one more where
/// they do not divide.
std::vector<int> replicas_for(const TrainOptions& options, const model::Model& model, int ranks) {
  if (!options.replicas.empty()) {
    const auto stages = static_cast<int>(options.replicas.size());
    if (options.stages && *options.stages != stages) {
      throw InputError("", "--replicas",
                       fmt::format("has {} for --stages {}",
                                   stages == 1 ? "1 entry" : fmt::format("{} entries", stages),
                                   *options.stages));
    }
    std::int64_t total = 0;
    for (int replicas : options.replicas) total += replicas;
    if (total != ranks) {
      throw InputError("", "--replicas",
                       fmt::format("asks for {}, the job has {}", counted(total, "rank"), ranks));
    }
    return options.replicas;
  }
  const int stages = options.stages.value_or(std::min(ranks, model.size()));
  if (stages > ranks) {
    throw InputError("", "--stages",
                     fmt::format("{} stages need as many ranks, the job has {}", stages, ranks));
  }
  std::vector<int> replicas(static_cast<std::size_t>(stages), ranks / stages);
  for (int s = 0; s < ranks % stages; ++s) ++replicas[static_cast<std::size_t>(s)];
  return replicas;
}

std::size_t window_bytes(const TrainOptions& options) {
  return static_cast<std::size_t>(options.shuffle_window_mib) << 20U;
}

DataExtent inspect_data(const TrainOptions& options, const model::Model& model) {
  const data::SplitFacts train =
      data::inspect_images(options.data, data::Split::train, window_bytes(options));
  const data::SplitFacts test = data::inspect_images(options.data, data::Split::test, 0);
  for (const base::Shape& image : {train.header.image, test.header.image}) {
    if (!(image == model.input)) {
      throw InputError(model.file, "input",
                       fmt::format("is {}, but the images of {} are {}", model.input.to_string(),
                                   options.data, image.to_string()));
    }
  }
  if (!options.evaluation_only && train.header.count < options.batch) {
    throw InputError(options.data, "train",
                     fmt::format("has {}, fewer than one batch of {} (--batch)",
                                 counted(train.header.count, "sample"), options.batch));
  }
  return {train.header.count, test.header.count, train.header.image, train.shuffle,
          train.normalisation};
}

void check_augmentation(const TrainOptions& options, const model::Model& model) {
  const std::int64_t padding = options.augmentation.crop_padding;
  if (padding <= std::min(model.input[1], model.input[2])) return;
  throw InputError("", "--augment",
                   fmt::format("crop:{} is more than the images have pixels: {}", padding,
                               model.input.to_string()));
}

/// Samples of the smallest microbatch that is not empty, of groups of `group` samples.
std::int64_t smallest_microbatch(std::int64_t group, std::int64_t microbatches) {
  return std::max<std::int64_t>(1, group / microbatches);
}

/// Finds before training what would end it in the last batch of an epoch.
void check_microbatches(const TrainOptions& options, const TrainInputs& inputs) {
  const std::int64_t last = inputs.extent.train % options.batch;
  std::int64_t smallest = smallest_microbatch(options.batch, inputs.plan.microbatches);
  if (last > 0) {
    smallest = std::min(smallest, smallest_microbatch(last, inputs.plan.microbatches));
  }
  for (const model::Layer& layer : inputs.model.layers) {
    if (smallest < layer.facts.least_samples) {
      throw InputError(
          fmt::format("{}: {}", options.model, layer.spec.where), "",
          fmt::format(
              "needs at least {} in a microbatch (batch norm, one value each), but --batch {} "
              "of {} in {} makes one of {}",
              counted(layer.facts.least_samples, "sample"), options.batch,
              counted(inputs.extent.train, "sample"),
              counted(inputs.plan.microbatches, "microbatch"), smallest));
    }
  }
}

nlohmann::json to_json(const DataExtent& extent) {
  nlohmann::json json = {{"train", extent.train},
                         {"test", extent.test},
                         {"block_samples", extent.shuffle.block_samples},
                         {"blocks", extent.shuffle.blocks}};
  if (extent.normalisation) {
    json["mean"] = extent.normalisation->mean;
    json["deviation"] = extent.normalisation->deviation;
  }
  return json;
}

DataExtent extent_from(const nlohmann::json& json, const base::Shape& image) {
  DataExtent extent{
      json["train"], json["test"], image, {json["block_samples"], json["blocks"]}, {}};
  if (json.contains("mean")) extent.normalisation = {json["mean"], json["deviation"]};
  return extent;
}

DataExtent shared_extent(const TrainOptions& options, const model::Model& model,
                         comm::World& world) {
  DataExtent extent;
  world.together([&] {
    if (world.rank() == 0) extent = inspect_data(options, model);
  });
  return extent_from(nlohmann::json::parse(world.broadcast(to_json(extent).dump())), model.input);
}

/// A split's images, which must be those that rank 0 found.
std::unique_ptr<data::ImageSource> open_checked(const TrainOptions& options,
                                                const TrainInputs& inputs, data::Split split,
                                                std::size_t memory_bytes) {
  auto source = data::open_images(options.data, split, memory_bytes);
  const data::ImageSource::Facts& facts = source->facts();
  data::check_labels(facts.labels, inputs.model.classes, facts.labels_place);
  const bool training = split == data::Split::train;
  const std::int64_t expected = training ? inputs.extent.train : inputs.extent.test;
  const bool same_order = !training || data::shuffle_window(*source) == inputs.extent.shuffle;
  if (source->size() != expected || !(facts.image == inputs.model.input) || !same_order) {
    throw InputError(facts.images_place, "",
                     fmt::format("has {} images of {} here, but {} of {} on rank 0's host, or is "
                                 "stored otherwise",
                                 source->size(), facts.image.to_string(), expected,
                                 inputs.model.input.to_string()));
  }
  return source;
}

void open_data(const TrainOptions& options, bool first_stage, TrainInputs& inputs) {
  auto train = open_checked(options, inputs, data::Split::train, window_bytes(options));
  auto test = open_checked(options, inputs, data::Split::test, 0);
  if (!first_stage) {
    inputs.train = NormalisedImages(std::move(train));
    inputs.test = NormalisedImages(std::move(test));
    return;
  }
  const data::Normalisation normalisation = inputs.extent.normalisation
                                                ? *inputs.extent.normalisation
                                                : data::measure_normalisation(*train);
  inputs.train = NormalisedImages(std::move(train), normalisation);
  inputs.test = NormalisedImages(std::move(test), normalisation);
}

/// The described cluster, one of its ranks for each of the job's.
planner::Cluster read_cluster(const TrainOptions& options, const std::string& text, int ranks) {
  planner::Cluster cluster = planner::parse_cluster(text, options.emulate);
  if (cluster.size() != ranks) {
    throw InputError(options.emulate, "ranks",
                     fmt::format("are {}, the job has {}", cluster.size(), ranks));
  }
  return cluster;
}

}  // namespace

plan::Plan make_plan(const TrainOptions& options, const std::string& plan_text,
                     const model::Model& model, int ranks) {
  if (!options.plan.empty()) return plan::parse_plan(plan_text, options.plan, model, ranks);
  plan::Plan plan =
      plan::equal_flops_plan(model, {options.schedule, options.policy, options.microbatches,
                                     replicas_for(options, model, ranks)});
  plan::set_recompute(plan, options.recompute, "--recompute");
  plan::validate(plan, model, ranks, "");
  return plan;
}

void check_streams(const plan::Plan& plan, const std::string& file) {
  const schedule::Segment segment = schedule::steady_segment(plan);
  auto problem =
      schedule::find_training_problem(plan, segment, 0, schedule::training_streams(plan, segment));
  if (!problem) {
    const std::int64_t count = segment.end_group * plan.microbatches;
    problem =
        schedule::find_evaluation_problem(plan, count, schedule::evaluation_streams(plan, count));
  }
  if (problem) throw InputError(file, "stages", "the plan cannot run: " + *problem);
}

TrainInputs read_train_inputs(const TrainOptions& options, comm::World& world) {
  TrainInputs inputs;
  const int ranks = options.ranks.value_or(world.size());
  if (options.ranks && world.size() > 1) {
    throw comm::AgreedError(base::ExitCode::bad_input,
                            InputError("", "--ranks", "is for a dry run without mpirun").what());
  }
  const std::string model_text = shared_text(options.model, world);
  const std::string plan_text = options.plan.empty() ? "" : shared_text(options.plan, world);
  const std::string cluster_text =
      options.emulate.empty() ? "" : shared_text(options.emulate, world);
  world.together([&] {
    inputs.model = model::parse_model(model_text, options.model, nn::layer_types());
    if (!options.emulate.empty()) inputs.cluster = read_cluster(options, cluster_text, ranks);
  });
  inputs.resume = find_resume_point(options, world);
  bool plan_again = true;
  world.together([&] {
    if (!inputs.resume) {
      if (!options.evaluation_only) check_init_from(options, inputs.model);
      return;
    }
    check_resume_model(*inputs.resume, inputs.model);
    plan_again = !keeps_plan(*inputs.resume, options, ranks);
  });
  const bool by_profile = plan_again && plans_by_profile(options, ranks);
  if (!options.evaluation_only && (inputs.cluster || by_profile)) {
    inputs.profile = profile_for_run(options, inputs.model, model_text, world);
  }
  world.together([&] {
    if (!plan_again) {
      inputs.plan = plan::parse_plan(inputs.resume->facts.plan, inputs.resume->path.string(),
                                     inputs.model, ranks);
    } else if (inputs.profile && by_profile) {
      const planner::Cluster cluster =
          inputs.cluster ? *inputs.cluster : profiled_cluster(*inputs.profile, ranks);
      inputs.plan = best_plan(options, inputs.model, *inputs.profile, cluster);
      plan::set_recompute(inputs.plan, options.recompute, "--recompute");
      plan::validate(inputs.plan, inputs.model, ranks, "");
    } else {
      inputs.plan = make_plan(options, plan_text, inputs.model, ranks);
    }
    if (world.rank() == 0) check_streams(inputs.plan, options.plan);
  });
  inputs.extent = shared_extent(options, inputs.model, world);
  world.together([&] {
    if (!options.evaluation_only) check_microbatches(options, inputs);
    check_augmentation(options, inputs.model);
  });
  const int stage = inputs.plan.stage_of(world.rank());
  world.together([&] {
    if (stage == 0 || stage == inputs.plan.size() - 1) open_data(options, stage == 0, inputs);
  });
  return inputs;
}

}  // namespace dynpipe::app
