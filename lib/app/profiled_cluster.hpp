#pragma once

#include "model/profile.hpp"
#include "planner/cluster.hpp"

namespace dynpipe::app {

/// planner::cluster_of, its ranks waiting as this program's do with a core each.
planner::Cluster profiled_cluster(const model::Profile& profile, int ranks);

}  // namespace dynpipe::app
