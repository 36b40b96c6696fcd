#include "planner/profile_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace dynpipe::planner {
namespace {

constexpr double k_apart = 1.1;

bool differ(const std::vector<double>& slowdowns) {
  if (slowdowns.empty()) return false;
  const auto [least, most] = std::minmax_element(slowdowns.begin(), slowdowns.end());
  return *most > k_apart * *least;
}

/// Ranks that meet in one switch, over links no better than any of these.
Cluster meeting_ranks(const std::vector<model::LinkProfile>& links, int ranks) {
  double latency_s = 0, overlap = 1;
  double bytes_per_s = std::numeric_limits<double>::infinity();
  for (const model::LinkProfile& link : links) {
    latency_s = std::max(latency_s, link.latency_s);
    bytes_per_s = std::min(bytes_per_s, link.both_ways_bytes_per_s);
    overlap = std::min(overlap, link.overlap);
  }
  // A little further than the measured links, which are the way wherever there are any.
  constexpr double k_further = 1.001;
  return uniform_cluster(ranks, k_further * latency_s / 2, bytes_per_s, overlap);
}

void add_measured(const model::LinkProfile& link, Cluster& cluster) {
  const int bus = cluster.size() + static_cast<int>(cluster.switches.size());
  const std::string name = fmt::format("link{}-{}", link.from, link.to);
  cluster.switches.push_back(name + ".bus");
  cluster.links.push_back(
      {name, link.from, bus, link.latency_s, link.bytes_per_s, true, link.overlap});
  cluster.links.push_back(
      {name + ".both", bus, link.to, 0, 2 * link.both_ways_bytes_per_s, false, link.overlap});
}

}  // namespace

int ranks_of(const model::Profile& profile) {
  int ranks = 0;
  for (const model::LinkProfile& link : profile.links) {
    ranks = std::max({ranks, link.from + 1, link.to + 1});
  }
  return ranks;
}

Cluster cluster_of(const model::Profile& profile, int ranks) {
  Cluster cluster = meeting_ranks(profile.links, ranks);
  cluster.name = "profile";
  for (const model::LinkProfile& link : profile.links) {
    if (std::max(link.from, link.to) < ranks) add_measured(link, cluster);
  }
  const std::vector<double>& slowdowns = profile.slowdowns;
  if (static_cast<int>(slowdowns.size()) == ranks && differ(slowdowns)) {
    for (std::size_t r = 0; r < slowdowns.size(); ++r) cluster.ranks[r].slowdown = slowdowns[r];
  }
  return cluster;
}

}  // namespace dynpipe::planner
