#include "probe/placement.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace dynpipe::probe {
namespace {

/// The number at the front of an environment variable ("4", "4,2", "4(x2)"), if positive.
std::optional<int> number_in_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  int number = 0;
  std::from_chars(view.data(), view.data() + view.size(), number);
  return number > 0 ? std::optional(number) : std::nullopt;
}

/// How many of the ranks may run on each core.
std::map<int, int> sharers_of_cores(const HostRanks& host) {
  std::map<int, int> sharers;
  for (const RankPlace* place : host) {
    for (int core : cores_of(place->cpus)) ++sharers[core];
  }
  return sharers;
}

int sharers_of_quota(const std::string& folder, const HostRanks& host) {
  return static_cast<int>(std::count_if(host.begin(), host.end(), [&](const RankPlace* other) {
    return other->quota && other->quota->folder == folder;
  }));
}

int whole_part(double number) {
  constexpr double k_rounding = 1e-9;
  return static_cast<int>(std::floor(number + k_rounding));
}

int threads_for(const RankPlace& place, const HostRanks& host, const std::map<int, int>& sharers) {
  if (place.asked_threads) return *place.asked_threads;
  const std::vector<int> cores = cores_of(place.cpus);
  const auto own_cores = static_cast<int>(cores.size());
  if (own_cores >= place.host_cores && !place.slurm_cpus) return 1;
  double share = 0;
  for (int core : cores) share += 1.0 / sharers.at(core);
  int threads = whole_part(share);
  if (place.slurm_cpus) {
    const int cpus_of_core = static_cast<int>(place.cpus.size()) / own_cores;
    threads = std::min(threads, *place.slurm_cpus / cpus_of_core);
  }
  if (place.quota) {
    threads = std::min(
        threads, whole_part(place.quota->value / sharers_of_quota(place.quota->folder, host)));
  }
  return std::max(1, threads);
}

}  // namespace

RankPlace own_place(int rank, const std::string& host, std::optional<int> asked_threads,
                    const ReadText& read) {
  const std::vector<Cpu> online = online_cpus(read);
  RankPlace place;
  place.rank = rank;
  place.host = host;
  place.cpus = with_ids(online, allowed_cpus());
  place.host_cores = core_count(online);
  place.quota = group_limits(read).cores;
  place.asked_threads = asked_threads ? asked_threads : number_in_environment("OMP_NUM_THREADS");
  place.slurm_cpus = number_in_environment("SLURM_CPUS_PER_TASK");
  return place;
}

void choose_threads(std::vector<RankPlace>& places) {
  const auto hosts = by_host(places);
  std::map<std::string, std::map<int, int>> sharers;
  for (const auto& [name, host] : hosts) sharers[name] = sharers_of_cores(host);
  for (RankPlace& place : places) {
    place.threads = place.cpus.empty()
                        ? place.asked_threads.value_or(1)
                        : threads_for(place, hosts.at(place.host), sharers.at(place.host));
  }
}

std::map<std::string, HostRanks> by_host(const std::vector<RankPlace>& places) {
  std::map<std::string, HostRanks> hosts;
  for (const RankPlace& place : places) {
    if (!place.cpus.empty()) hosts[place.host].push_back(&place);
  }
  return hosts;
}

std::vector<Cpu> united_cpus(const HostRanks& ranks) {
  std::map<int, Cpu> all;
  for (const RankPlace* place : ranks) {
    for (const Cpu& cpu : place->cpus) all[cpu.id] = cpu;
  }
  std::vector<Cpu> cpus;
  for (const auto& [id, cpu] : all) cpus.push_back(cpu);
  return cpus;
}

int total_threads(const HostRanks& ranks) {
  int threads = 0;
  for (const RankPlace* place : ranks) threads += place->threads;
  return threads;
}

std::vector<int> numbers_of(const HostRanks& ranks) {
  std::vector<int> numbers;
  for (const RankPlace* place : ranks) numbers.push_back(place->rank);
  return numbers;
}

}  // namespace dynpipe::probe
