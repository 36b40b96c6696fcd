#pragma once

#include "model/profile.hpp"
#include "planner/cluster.hpp"

namespace dynpipe::planner {

/// The machine that a profile was measured on, as far as its links tell: its ranks, as slow as they
/// were beside one another, and for each link a cable of its one-way rate into a bus that traffic
/// both ways shares (twice the rate that each way has then), so that either case takes what was
/// measured. No ranks where it has no links.
Cluster cluster_of(const model::Profile& profile);

}  // namespace dynpipe::planner
