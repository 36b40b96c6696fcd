#pragma once

#include <optional>
#include <string>

#include "app/train_options.hpp"
#include "comm/world.hpp"
#include "model/model.hpp"
#include "model/profile.hpp"
#include "plan/plan.hpp"
#include "planner/cluster.hpp"

namespace dynpipe::app {

/// Whether a run plans by measured times: there is something to decide, no plan was given, no
/// replicas, no other algorithm.
bool plans_by_profile(const TrainOptions& options, int ranks);

/// The profile that a run is planned or emulated by: that of --profile; else what was measured
/// before for this model, machine and options; else measured now. Empty where the whole model does
/// not fit into a rank's memory. Collective; the same on all ranks.
/// `model_text`: the model's file.
std::optional<model::Profile> profile_for_run(const TrainOptions& options,
                                              const model::Model& model,
                                              const std::string& model_text, comm::World& world);

/// The best plan for `ranks` ranks of a cluster, of as many stages as the options say (by default
/// one a rank). Throws InputError.
plan::Plan best_plan(const TrainOptions& options, const model::Model& model,
                     const model::Profile& profile, const planner::Cluster& cluster);

}  // namespace dynpipe::app
