#include "planner/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace dynpipe::planner {

double Waiting::noticed_s(double wait_s) const {
  constexpr double k_share_of_wait = 0.2;
  if (nap_s == 0 || wait_s <= spin_s) return wait_s;
  double looked_s = spin_s;
  while (looked_s < wait_s) {
    const double share_s = k_share_of_wait * looked_s;
    if (share_s >= longest_nap_s) {  // and so from now on
      const double naps = std::ceil((wait_s - looked_s) / std::max(nap_s, longest_nap_s));
      return looked_s + naps * std::max(nap_s, longest_nap_s);
    }
    looked_s += std::max(nap_s, share_s);
  }
  return looked_s;
}

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
