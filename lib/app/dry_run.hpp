#pragma once

#include <string>

#include "app/train_options.hpp"
#include "comm/world.hpp"
#include "model/model.hpp"
#include "plan/plan.hpp"

namespace dynpipe::app {

/// `dynpipe train --dry-run`: reads and checks everything that training would, and prints what each
/// rank would hold and how long it would wait. With --ranks the process stands for all ranks.
/// Collective. Throws an AgreedError for wrong input, and where memory cannot suffice.
void dry_run(const TrainOptions& options, comm::World& world);

/// What each rank of a plan would hold and how long it would wait, without running it: versions,
/// microbatches between their forward and their backward, and the share of its time in which it
/// waits for others once the pipeline is full, by FLOPs (a backward counts two forwards). Transfers
/// and updates are left out. A table for people.
std::string describe_waiting(const model::Model& model, const plan::Plan& plan);

}  // namespace dynpipe::app
