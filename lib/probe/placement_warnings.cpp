#include "probe/placement_warnings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "probe/crowding.hpp"
#include "probe/number_list.hpp"

namespace dynpipe::probe {
namespace {

constexpr std::size_t k_most_crowds_of_a_host = 3;
constexpr std::size_t k_most_warnings = 8;

std::string count_of(std::size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string name_cores(const std::vector<Cpu>& cpus) {
  std::vector<int> ids;
  for (const Cpu& cpu : cpus) ids.push_back(cpu.id);
  if (core_count(cpus) > 1) return fmt::format("cores {}", number_list(ids));
  return ids.size() == 1 ? fmt::format("core {}", ids[0])
                         : fmt::format("one core (hardware threads {})", number_list(ids));
}

std::string describe(const Crowd& crowd) {
  const auto cores = static_cast<std::size_t>(core_count(crowd.cpus));
  const auto threads = static_cast<std::size_t>(crowd.threads);
  if (crowd.whole_host) {
    return fmt::format(
        "{} run {} on the {} of host {}: they take turns, which costs time; start fewer ranks or "
        "lower --threads",
        name_ranks(crowd.ranks), count_of(threads, "thread"), count_of(cores, "core"), crowd.host);
  }
  if (crowd.ranks.size() == 1) {
    return fmt::format(
        "{} is bound to {} of host {}, but runs {}: lower --threads or bind it to more (mpirun "
        "--map-by slot:PE={}, srun --cpus-per-task={})",
        name_ranks(crowd.ranks), name_cores(crowd.cpus), crowd.host, count_of(threads, "thread"),
        threads, threads);
  }
  return fmt::format(
      "{} are {} bound to {} of host {}, with {} in all: start with mpirun --map-by core --bind-to "
      "core, without taskset, or ask for more cores",
      name_ranks(crowd.ranks), crowd.ranks.size() == 2 ? "both" : "all", name_cores(crowd.cpus),
      crowd.host, count_of(threads, "thread"));
}

void add_crowds(const std::vector<RankPlace>& places, std::vector<PlacementWarning>& warnings) {
  std::map<std::string, std::vector<Crowd>> hosts;
  for (const Crowd& crowd : crowds(places)) hosts[crowd.host].push_back(crowd);
  for (const auto& [host, found] : hosts) {
    if (found.size() <= k_most_crowds_of_a_host) {
      for (const Crowd& crowd : found) warnings.push_back({describe(crowd), !crowd.whole_host});
    } else {
      warnings.push_back({fmt::format("{}; {} more such groups of ranks on this host",
                                      describe(found.front()), found.size() - 1),
                          true});
    }
  }
}

void add_quotas(const std::map<std::string, HostRanks>& hosts,
                std::vector<PlacementWarning>& warnings) {
  for (const auto& [host, ranks] : hosts) {
    std::map<std::string, HostRanks> groups;
    for (const RankPlace* place : ranks) {
      if (place->quota) groups[place->quota->folder].push_back(place);
    }
    for (const auto& [folder, members] : groups) {
      const double allowed = members.front()->quota->value;
      if (total_threads(members) <= allowed) continue;
      warnings.push_back({fmt::format(
          "{} on host {} run {}, but their control group allows {:.4g} cores of CPU "
          "time ({}): ask for more or start fewer",
          name_ranks(numbers_of(members)), host,
          count_of(static_cast<std::size_t>(total_threads(members)), "thread"), allowed, folder)});
    }
  }
}

/// Whether a rank may run on several NUMA nodes though some one of them has the cores for it.
bool may_wander(const RankPlace& place) {
  const std::vector<int> nodes = nodes_of(place.cpus);
  if (nodes.size() < 2) return false;
  return std::any_of(nodes.begin(), nodes.end(), [&](int node) {
    std::vector<Cpu> inside;
    std::copy_if(place.cpus.begin(), place.cpus.end(), std::back_inserter(inside),
                 [&](const Cpu& cpu) { return cpu.node == node; });
    return core_count(inside) >= place.threads;
  });
}

void add_wanderers(const std::map<std::string, HostRanks>& hosts,
                   std::vector<PlacementWarning>& warnings) {
  for (const auto& [host, ranks] : hosts) {
    HostRanks wanderers;
    std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(wanderers),
                 [](const RankPlace* place) { return may_wander(*place); });
    if (wanderers.empty()) continue;
    warnings.push_back({fmt::format(
        "{} may wander between NUMA nodes {} of host {}, away from {} memory, though one node has "
        "the cores: start with mpirun --bind-to numa or srun --cpu-bind=ldoms",
        name_ranks(numbers_of(wanderers)), number_list(nodes_of(united_cpus(wanderers))), host,
        wanderers.size() == 1 ? "its" : "their")});
  }
}

}  // namespace

std::vector<PlacementWarning> placement_warnings(const std::vector<RankPlace>& places) {
  std::vector<PlacementWarning> warnings;
  add_crowds(places, warnings);
  const auto hosts = by_host(places);
  add_quotas(hosts, warnings);
  add_wanderers(hosts, warnings);
  if (warnings.size() > k_most_warnings) {
    const std::size_t left_out = warnings.size() - k_most_warnings;
    warnings.resize(k_most_warnings);
    warnings.push_back({fmt::format("{} more such lines of other hosts", left_out)});
  }
  return warnings;
}

std::string name_ranks(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  if (ranks.size() == 2) return fmt::format("ranks {} and {}", ranks[0], ranks[1]);
  return fmt::format("ranks {}", number_list(ranks));
}

}  // namespace dynpipe::probe
