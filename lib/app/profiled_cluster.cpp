#include "app/profiled_cluster.hpp"

#include "comm/channel.hpp"
#include "planner/profile_cluster.hpp"

namespace dynpipe::app {

planner::Cluster profiled_cluster(const model::Profile& profile, int ranks) {
  planner::Cluster cluster = planner::cluster_of(profile, ranks);
  const comm::WaitPolicy policy;
  cluster.waiting = {comm::WaitPolicy::k_spin_on_own_core_s, policy.nap_s, policy.longest_nap_s};
  return cluster;
}

}  // namespace dynpipe::app
