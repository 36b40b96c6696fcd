#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "probe/cgroup.hpp"
#include "probe/cpus.hpp"

namespace dynpipe::probe {

/// Where a rank runs, as the OS tells it.
struct RankPlace {
  int rank = 0;
  std::string host;
  std::vector<Cpu> cpus;                    ///< that it may run on; empty where the OS did not say
  int host_cores = 0;                       ///< of the host, online
  std::optional<GroupLimit<double>> quota;  ///< of its control group: CPU seconds a second
  std::optional<int> asked_threads;         ///< --threads, else OMP_NUM_THREADS
  std::optional<int> slurm_cpus;            ///< SLURM_CPUS_PER_TASK: hardware threads
  int threads = 1;                          ///< see `choose_threads`
};

/// The calling process's own place; `threads` is not chosen yet.
RankPlace own_place(int rank, const std::string& host, std::optional<int> asked_threads,
                    const ReadText& read);

/// Threads of each rank's maths. What was asked for, if anything was. Else a rank's share of the
/// cores that it may run on, each core divided evenly among the host's ranks that may run there,
/// rounded down: 1 where it may run on the whole host, as that says nothing of what is its own,
/// unless SLURM_CPUS_PER_TASK does; no more than that many, no more than an equal part of the
/// control group's quota, and at least 1.
void choose_threads(std::vector<RankPlace>& places);

/// Some ranks of one host, all of which know their CPUs.
using HostRanks = std::vector<const RankPlace*>;
/// Host by host; without the ranks that do not know their CPUs.
std::map<std::string, HostRanks> by_host(const std::vector<RankPlace>& places);
/// The CPUs that any of them may run on, by id, and the threads of all.
std::vector<Cpu> united_cpus(const HostRanks& ranks);
int total_threads(const HostRanks& ranks);
std::vector<int> numbers_of(const HostRanks& ranks);

}  // namespace dynpipe::probe
