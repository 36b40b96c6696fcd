#pragma once

#include <optional>
#include <string>

#include "app/image_feed.hpp"
#include "app/resume.hpp"
#include "app/train_options.hpp"
#include "comm/world.hpp"
#include "model/model.hpp"
#include "model/profile.hpp"
#include "plan/plan.hpp"
#include "planner/cluster.hpp"

namespace dynpipe::app {

/// What the data set says of itself, known to all ranks.
struct DataExtent {
  std::int64_t train = 0, test = 0;  ///< samples
  base::Shape image;
  data::ShuffleWindow shuffle;                       ///< of the training samples
  std::optional<data::Normalisation> normalisation;  ///< where its files state it
};

/// Everything that training reads before it starts, checked.
struct TrainInputs {
  model::Model model;
  plan::Plan plan;
  std::optional<planner::Cluster> cluster;  ///< where one is emulated
  std::optional<model::Profile> profile;    ///< where one was needed
  std::optional<ResumePoint> resume;        ///< where the run goes on; empty: at its start
  DataExtent extent;
  NormalisedImages train, test;  ///< on the first and last stage (labels); empty elsewhere
};

/// The plan in `plan_text` if --plan names its file, else the one that the options ask for, for so
/// many ranks. Throws InputError.
plan::Plan make_plan(const TrainOptions& options, const std::string& plan_text,
                     const model::Model& model, int ranks);

/// Throws InputError naming the plan's file if its streams would block or break its own rules.
/// Streams are the same in every epoch but for their numbers, so a few groups stand for all.
void check_streams(const plan::Plan& plan, const std::string& file);

/// Collective. Model and plan are read by rank 0 alone, images by the ranks that need them.
/// Whatever is wrong, all ranks throw the same AgreedError.
TrainInputs read_train_inputs(const TrainOptions& options, comm::World& world);

}  // namespace dynpipe::app
