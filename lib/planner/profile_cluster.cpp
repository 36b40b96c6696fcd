#include "planner/profile_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace dynpipe::planner {

Cluster cluster_of(const model::Profile& profile) {
  Cluster cluster;
  cluster.name = "profile";
  int ranks = 0;
  for (const model::LinkProfile& link : profile.links) {
    ranks = std::max({ranks, link.from + 1, link.to + 1});
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const double slowdown = at < profile.slowdowns.size() ? profile.slowdowns[at] : 1;
    cluster.ranks.push_back({fmt::format("rank{}", rank), slowdown});
  }
  for (const model::LinkProfile& link : profile.links) {
    const int bus = ranks + static_cast<int>(cluster.switches.size());
    const std::string name = fmt::format("link{}-{}", link.from, link.to);
    cluster.switches.push_back(name + ".bus");
    cluster.links.push_back(
        {name, link.from, bus, link.latency_s, link.bytes_per_s, true, link.overlap});
    cluster.links.push_back(
        {name + ".both", bus, link.to, 0, 2 * link.both_ways_bytes_per_s, false, link.overlap});
  }
  return cluster;
}

}  // namespace dynpipe::planner
