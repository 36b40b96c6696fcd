#pragma once

#include <cstdint>

#include "model/model.hpp"
#include "model/profile.hpp"
#include "plan/plan.hpp"
#include "planner/simulator.hpp"

namespace dynpipe::planner {

/// What a plan's streams cost by a profile, in groups of `batch` samples. An empty microbatch costs
/// nothing.
Workload workload_of(const model::Profile& profile, const plan::Plan& plan, std::int64_t batch);

/// Stands in for a profile where none was measured: a forward takes its FLOPs at this rate, each
/// part of a backward that there is as long, an update nothing; values are float32.
model::Profile profile_by_flops(const model::Model& model, double flops_per_s);

}  // namespace dynpipe::planner
