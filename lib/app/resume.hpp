#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "app/run_progress.hpp"
#include "app/train_options.hpp"
#include "comm/world.hpp"
#include "data/sample_order.hpp"
#include "io/checkpoint.hpp"
#include "model/model.hpp"
#include "pipeline/worker.hpp"
#include "plan/plan.hpp"

namespace dynpipe::app {

/// Where a run goes on.
struct ResumePoint {
  std::filesystem::path path;  ///< of the checkpoint
  io::CheckpointFacts facts;
  RunProgress progress;
};

/// The checkpoint that --resume means, its files checked, each by one rank: that of a path; or the
/// newest of a folder that is whole, where damaged ones are told of by a warning. Empty where
/// nothing is to be resumed, or `auto` finds an empty folder. Collective: whatever is wrong, all
/// ranks throw the same AgreedError.
std::optional<ResumePoint> find_resume_point(const TrainOptions& options, comm::World& world);

/// Throws InputError where the checkpoint's layers are not the model's.
void check_resume_model(const ResumePoint& point, const model::Model& model);

/// Whether the run goes on under the checkpoint's plan: for as many ranks, and none of the options
/// that make a plan says otherwise than it did then.
bool keeps_plan(const ResumePoint& point, const TrainOptions& options, int ranks);

/// Throws InputError where what cannot change has changed: batch, seed, type, optimizer, data set.
/// Returns what else is different, a line each. `config`: of this run, as `checkpoint_config`
/// makes it.
std::vector<std::string> compare_config(const ResumePoint& point, const std::string& config);

/// What a checkpoint keeps of the options: JSON. `settings`: the summary's `config`.
std::string checkpoint_config(const TrainOptions& options, const nlohmann::ordered_json& settings,
                              std::int64_t train_samples, const data::ShuffleWindow& window);

/// Reads a stage's state into a worker. Under the plan of the checkpoint all versions of its
/// weights, so that training goes on as if it had not stopped; under another the newest alone.
/// Throws InputError.
void restore_state(const ResumePoint& point, const plan::Plan& plan, const model::Model& model,
                   const TrainOptions& options, device::Device& device, pipeline::Worker& worker);

/// Weights to start from: those of --init-from, and fresh ones for its excepted layers; else fresh
/// ones. Throws InputError naming the tensor.
tensor::StateDict starting_state(const TrainOptions& options, std::span<const model::Layer> layers);
/// Throws InputError where --init-from is no checkpoint or file of weights, is damaged, or an
/// excepted layer is none of the model's. For one rank.
void check_init_from(const TrainOptions& options, const model::Model& model);

}  // namespace dynpipe::app
