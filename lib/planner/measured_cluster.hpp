#pragma once

#include "model/profile.hpp"
#include "planner/cluster.hpp"

namespace dynpipe::planner {

/// The machine that a profile was measured on, for so many ranks: every measured pair has its link,
/// other pairs meet in one switch, no better than the worst of the measured. Ranks are as slow as
/// they were measured where the profile is of as many and they are at least 10 % apart, else equal.
/// Where no link was measured, messages take no time.
Cluster measured_cluster(const model::Profile& profile, int ranks);

}  // namespace dynpipe::planner
