#include "planner/cluster.hpp"

#include <fmt/format.h>

namespace dynpipe::planner {

Cluster uniform_cluster(int ranks, double latency_s, double bytes_per_s, double overlap) {
  Cluster cluster;
  cluster.name = fmt::format("{} ranks", ranks);
  cluster.switches = {"switch"};
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string name = fmt::format("rank{}", rank);
    cluster.ranks.push_back({name});
    cluster.links.push_back({name, rank, ranks, latency_s, bytes_per_s, true, overlap});
  }
  return cluster;
}

}  // namespace dynpipe::planner
