#include "probe/crowding.hpp"

#include <algorithm>

namespace dynpipe::probe {
namespace {

Crowd crowd_of(const HostRanks& ranks) {
  const std::vector<Cpu> cpus = united_cpus(ranks);
  return {ranks.front()->host, numbers_of(ranks), total_threads(ranks), cpus,
          core_count(cpus) >= ranks.front()->host_cores};
}

bool is_crowded(const HostRanks& ranks) {
  return total_threads(ranks) > core_count(united_cpus(ranks));
}

/// Crowds within a host that has cores for all: of the ranks that may run on no other cores than
/// some rank's.
std::vector<Crowd> inner_crowds(const HostRanks& host) {
  HostRanks by_size = host;
  std::stable_sort(by_size.begin(), by_size.end(), [](const RankPlace* a, const RankPlace* b) {
    return core_count(a->cpus) < core_count(b->cpus);
  });
  std::vector<Crowd> found;
  std::vector<int> told;
  for (const RankPlace* place : by_size) {
    if (std::find(told.begin(), told.end(), place->rank) != told.end()) continue;
    const std::vector<int> cores = cores_of(place->cpus);
    HostRanks within;
    std::copy_if(host.begin(), host.end(), std::back_inserter(within), [&](const RankPlace* other) {
      const std::vector<int> own = cores_of(other->cpus);
      return std::includes(cores.begin(), cores.end(), own.begin(), own.end());
    });
    if (!is_crowded(within)) continue;
    const bool new_one = std::none_of(within.begin(), within.end(), [&](const RankPlace* other) {
      return std::find(told.begin(), told.end(), other->rank) != told.end();
    });
    for (const RankPlace* other : within) told.push_back(other->rank);
    if (new_one) found.push_back(crowd_of(within));
  }
  return found;
}

}  // namespace

std::vector<Crowd> crowds(const std::vector<RankPlace>& places) {
  std::vector<Crowd> found;
  for (const auto& [name, host] : by_host(places)) {
    if (total_threads(host) > host.front()->host_cores) {
      found.push_back(crowd_of(host));
      continue;
    }
    std::vector<Crowd> inner = inner_crowds(host);
    if (inner.empty() && is_crowded(host)) inner.push_back(crowd_of(host));
    found.insert(found.end(), inner.begin(), inner.end());
  }
  return found;
}

bool has_its_cores(const std::vector<RankPlace>& places, int rank) {
  const std::vector<Crowd> all = crowds(places);
  return std::none_of(all.begin(), all.end(), [&](const Crowd& crowd) {
    return std::find(crowd.ranks.begin(), crowd.ranks.end(), rank) != crowd.ranks.end();
  });
}

}  // namespace dynpipe::probe
