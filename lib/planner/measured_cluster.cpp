#include "planner/measured_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace dynpipe::planner {
namespace {

model::LinkProfile worst_of(const std::vector<model::LinkProfile>& links) {
  model::LinkProfile worst{
      0, 0, 0, std::numeric_limits<double>::max(), std::numeric_limits<double>::max(), 1};
  for (const model::LinkProfile& link : links) {
    worst.latency_s = std::max(worst.latency_s, link.latency_s);
    worst.both_ways_bytes_per_s = std::min(worst.both_ways_bytes_per_s, link.both_ways_bytes_per_s);
    worst.overlap = std::min(worst.overlap, link.overlap);
  }
  return worst;
}

/// Ranks closer together than this are equal: a few seconds cannot tell.
constexpr double k_apart = 1.1;

bool differ(const std::vector<double>& slowdowns) {
  const auto [least, most] = std::minmax_element(slowdowns.begin(), slowdowns.end());
  return *most > k_apart * *least;
}

}  // namespace

Cluster measured_cluster(const model::Profile& profile, int ranks) {
  const model::LinkProfile worst = worst_of(profile.links);
  Cluster cluster =
      uniform_cluster(ranks, worst.latency_s / 2, worst.both_ways_bytes_per_s, worst.overlap);
  cluster.name = profile.device;
  if (static_cast<int>(profile.slowdowns.size()) == ranks && differ(profile.slowdowns)) {
    for (std::size_t r = 0; r < cluster.ranks.size(); ++r) {
      cluster.ranks[r].slowdown = profile.slowdowns[r];
    }
  }
  for (const model::LinkProfile& link : profile.links) {
    if (std::max(link.from, link.to) >= ranks) continue;
    ClusterLink direct;
    direct.name = fmt::format("{}-{}", link.from, link.to);
    direct.from = link.from;
    direct.to = link.to;
    direct.latency_s = link.latency_s;
    direct.bytes_per_s = link.both_ways_bytes_per_s;
    direct.overlap = link.overlap;
    cluster.links.push_back(std::move(direct));
  }
  return cluster;
}

}  // namespace dynpipe::planner
