#pragma once

#include "model/profile.hpp"
#include "planner/cluster.hpp"

namespace dynpipe::planner {

/// How many ranks a profile's links are between; 0 where it has none.
int ranks_of(const model::Profile& profile);

/// The machine that a profile was measured on, for so many ranks. Each measured pair has a cable of
/// its one-way rate into a bus that traffic both ways shares (twice the rate that each way has
/// then), so that either case takes what was measured; other pairs meet in a switch, no better than
/// the worst of the measured. Ranks are as slow as they were beside one another where they are at
/// least 10 % apart (a few seconds cannot tell less), else equal. Where no link was measured,
/// messages take no time.
Cluster cluster_of(const model::Profile& profile, int ranks);

}  // namespace dynpipe::planner
