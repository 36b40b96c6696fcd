#include "app/doctor_findings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "probe/number_list.hpp"
#include "probe/placement_warnings.hpp"

namespace dynpipe::app {
namespace {

using Ranks = std::vector<DoctorFacts>;

std::string gigabytes(std::int64_t bytes) {
  return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9);
}

/// The first rank of each host, and how many there are on it.
struct HostView {
  const DoctorFacts* first = nullptr;
  int ranks = 0;
};
std::map<std::string, HostView> hosts_of(const Ranks& ranks) {
  std::map<std::string, HostView> hosts;
  for (const DoctorFacts& rank : ranks) {
    HostView& host = hosts[rank.place.host];
    if (host.first == nullptr) host.first = &rank;
    ++host.ranks;
  }
  return hosts;
}

/// The distinct values of something, in words.
std::string distinct(const Ranks& ranks,
                     const std::function<std::string(const DoctorFacts&)>& word) {
  std::set<std::string> words;
  for (const DoctorFacts& rank : ranks) words.insert(word(rank));
  return fmt::format("{}", fmt::join(words, "; "));
}

bool differs(const Ranks& ranks, const std::function<std::string(const DoctorFacts&)>& word) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](const DoctorFacts& rank) { return word(rank) != word(ranks.front()); });
}

/// One line for all hosts where `complain` finds nothing, else one for each host where it does.
using Complain = std::function<Finding(const std::string& host, const HostView&)>;
void add_by_host(const Ranks& ranks, const Complain& complain, const std::string& topic,
                 const std::string& fine, std::vector<Finding>& found) {
  constexpr std::size_t k_most = 6;
  std::vector<Finding> bad;
  for (const auto& [name, host] : hosts_of(ranks)) {
    Finding finding = complain(name, host);
    finding.topic = topic;
    if (finding.verdict != Verdict::fine) bad.push_back(std::move(finding));
  }
  if (bad.empty()) bad.push_back({Verdict::fine, topic, fine});
  if (bad.size() > k_most) {
    const std::size_t more = bad.size() - k_most;
    bad.resize(k_most);
    bad.back().text += fmt::format("; so on {} more hosts", more);
  }
  found.insert(found.end(), bad.begin(), bad.end());
}

Finding launch_of(const Ranks& ranks) {
  const DoctorFacts& first = ranks.front();
  if (first.slurm_step_tasks > 1 && ranks.size() == 1) {
    return {Verdict::wrong, "launch",
            fmt::format("Slurm started {} tasks, but each is alone: srun and this MPI do not speak "
                        "to each other; use srun --mpi=pmix (srun --mpi=list tells what there is) "
                        "or mpirun",
                        first.slurm_step_tasks)};
  }
  std::vector<std::string> hosts;
  for (const auto& [name, host] : hosts_of(ranks)) {
    hosts.push_back(fmt::format("{} on {}", host.ranks, name));
  }
  constexpr std::size_t k_most = 6;
  const bool cut = hosts.size() > k_most;
  if (cut) hosts.resize(k_most);
  return {Verdict::fine, "launch",
          fmt::format("{} rank{}: {}{}", ranks.size(), ranks.size() == 1 ? "" : "s",
                      fmt::join(hosts, ", "), cut ? ", ..." : "")};
}

Finding mpi_of(const Ranks& ranks) {
  const auto library = [](const DoctorFacts& rank) { return rank.mpi.library; };
  if (differs(ranks, library)) {
    return {Verdict::wrong, "MPI",
            fmt::format("ranks run different libraries ({}): load the same module everywhere",
                        distinct(ranks, library))};
  }
  const comm::MpiFacts& mpi = ranks.front().mpi;
  return {
      Verdict::fine, "MPI",
      fmt::format("{}, standard {}, thread level {}", mpi.library, mpi.standard, mpi.thread_level)};
}

Finding hdf5_of(const Ranks& ranks) {
  const auto version = [](const DoctorFacts& rank) { return rank.hdf5.version; };
  if (differs(ranks, version)) {
    return {Verdict::warning, "HDF5",
            fmt::format("ranks load different versions ({}): load the same module everywhere",
                        distinct(ranks, version))};
  }
  const io::LibraryFacts& hdf5 = ranks.front().hdf5;
  if (!hdf5.deflates) {
    return {Verdict::wrong, "HDF5",
            fmt::format("{} was built without deflate: compressed data sets cannot be read, use a "
                        "build with zlib",
                        hdf5.version)};
  }
  return {Verdict::fine, "HDF5", fmt::format("{}, with deflate", hdf5.version)};
}

void add_placement(const Ranks& ranks, std::vector<Finding>& found) {
  std::vector<probe::RankPlace> places;
  for (const DoctorFacts& rank : ranks) places.push_back(rank.place);
  const auto warnings = probe::placement_warnings(places);
  for (const auto& warning : warnings) {
    found.push_back({warning.mistake ? Verdict::wrong : Verdict::warning, "binding", warning.text});
  }
  if (!warnings.empty()) return;
  const auto [fewest, most] =
      std::minmax_element(places.begin(), places.end(),
                          [](const auto& a, const auto& b) { return a.threads < b.threads; });
  found.push_back({Verdict::fine, "binding",
                   fmt::format("every rank has a core for each of its threads ({} a rank)",
                               fewest->threads == most->threads
                                   ? fmt::format("{}", most->threads)
                                   : fmt::format("{} to {}", fewest->threads, most->threads))});
}

Finding cpu_of(const Ranks& ranks) {
  const auto word = [](const DoctorFacts& rank) {
    return fmt::format("{}, {}", rank.cpu.empty() ? "unknown CPU" : rank.cpu, rank.maths.isa);
  };
  if (differs(ranks, word)) {
    return {Verdict::warning, "CPU",
            fmt::format("hosts differ ({}): the slowest sets the pace, and another spread of ranks "
                        "gives other bits",
                        distinct(ranks, word))};
  }
  if (!ranks.front().maths.has_fma) {
    return {Verdict::warning, "CPU",
            word(ranks.front()) + ": without AVX2 products take several times as long"};
  }
  return {Verdict::fine, "CPU",
          fmt::format("{}; {}; {}", word(ranks.front()), ranks.front().maths.onednn,
                      ranks.front().maths.blas)};
}

Finding speed_of(const Ranks& ranks) {
  constexpr double k_slow = 0.7;
  const auto [slowest, fastest] = std::minmax_element(
      ranks.begin(), ranks.end(),
      [](const DoctorFacts& a, const DoctorFacts& b) { return a.gigaflops < b.gigaflops; });
  const std::string text = fmt::format(
      "products of 512 x 512 matrices at {:.0f} GFLOP/s a rank, all at once", fastest->gigaflops);
  if (slowest->gigaflops < k_slow * fastest->gigaflops) {
    return {Verdict::warning, "speed",
            fmt::format("{}, but {:.0f} on rank {} of host {}: something else may run on its cores",
                        text, slowest->gigaflops, slowest->place.rank, slowest->place.host)};
  }
  return {Verdict::fine, "speed", text};
}

void add_load(const Ranks& ranks, std::vector<Finding>& found) {
  constexpr double k_noticeable_cores = 0.25;
  const auto complain = [](const std::string& name, const HostView& host) -> Finding {
    const double load = host.first->other_cores;
    if (load < k_noticeable_cores) return {};
    return {Verdict::warning, "",
            fmt::format("other processes use {:.1f} of {} cores of host {}: stages that share them "
                        "slow the whole pipeline",
                        load, host.first->place.host_cores, name)};
  };
  add_by_host(ranks, complain, "load", "hosts are otherwise idle", found);
}

void add_memory(const Ranks& ranks, std::vector<Finding>& found) {
  constexpr std::int64_t k_little_bytes = 1'000'000'000;  // a rank
  std::int64_t least = INT64_MAX;
  for (const DoctorFacts& rank : ranks) {
    least = std::min(least, rank.room.limit
                                ? std::min(rank.room.limit->value, rank.room.available_bytes)
                                : rank.room.available_bytes);
  }
  const auto complain = [&](const std::string& name, const HostView& host) -> Finding {
    const RankRoom& room = host.first->room;
    const bool limited = room.limit && room.limit->value < room.available_bytes;
    const std::int64_t there = limited ? room.limit->value : room.available_bytes;
    if (there >= k_little_bytes * host.ranks) return {};
    return {Verdict::warning, "",
            fmt::format(
                "{} {} for {} ranks on host {}: see what they need with dynpipe train "
                "--dry-run",
                gigabytes(there),
                limited ? fmt::format("allowed by control group {}", room.limit->folder) : "left",
                host.ranks, name)};
  };
  add_by_host(ranks, complain, "memory", fmt::format("{} or more on every host", gigabytes(least)),
              found);
}

void add_quota(const Ranks& ranks, std::vector<Finding>& found) {
  std::set<std::string> limits;
  for (const DoctorFacts& rank : ranks) {
    if (rank.place.quota) {
      limits.insert(
          fmt::format("{:.4g} cores ({})", rank.place.quota->value, rank.place.quota->folder));
    }
    if (rank.room.limit) {
      limits.insert(
          fmt::format("{} ({})", gigabytes(rank.room.limit->value), rank.room.limit->folder));
    }
  }
  found.push_back({Verdict::fine, "cgroup",
                   limits.empty() ? "control groups set no limit"
                                  : fmt::format("limited to {}", fmt::join(limits, ", "))});
}

void add_shared_memory(const Ranks& ranks, std::vector<Finding>& found) {
  constexpr std::int64_t k_rank_bytes = 16 << 20U;
  const auto complain = [](const std::string& name, const HostView& host) -> Finding {
    const std::int64_t free = host.first->host.shm_bytes;
    if (free >= k_rank_bytes * host.ranks) return {};
    return {Verdict::wrong, "",
            free < 0
                ? fmt::format("host {} has no /dev/shm, through which ranks of a host speak: "
                              "mount it, or use mpirun --mca btl tcp,self",
                              name)
                : fmt::format("{} MB free in /dev/shm of host {}, ranks may need {} MB: delete "
                              "what is left there, or enlarge it (containers: --shm-size)",
                              free >> 20U, name, (k_rank_bytes * host.ranks) >> 20U)};
  };
  add_by_host(ranks, complain, "/dev/shm",
              fmt::format("{} free on host {}", gigabytes(ranks.front().host.shm_bytes),
                          ranks.front().place.host),
              found);
}

void add_limits(const Ranks& ranks, std::vector<Finding>& found) {
  const auto world = static_cast<std::int64_t>(ranks.size());
  const auto complain = [&](const std::string& name, const HostView& host) -> Finding {
    const probe::HostState& state = host.first->host;
    const std::int64_t needed = 64 + 2 * world;
    if (state.open_files >= 0 && state.open_files < needed) {
      return {Verdict::wrong, "",
              fmt::format("a process of host {} may open {} files, {} ranks may need {}: ulimit -n "
                          "{}",
                          name, state.open_files, world, needed, needed)};
    }
    if (!state.fabrics.empty() && state.locked_bytes >= 0) {
      return {Verdict::warning, "",
              fmt::format("host {} has a fabric ({}) that needs locked memory, but only {} kB may "
                          "be locked: ulimit -l unlimited",
                          name, fmt::join(state.fabrics, ","), state.locked_bytes / 1024)};
    }
    return {};
  };
  const std::int64_t files = ranks.front().host.open_files;
  add_by_host(ranks, complain, "limits",
              fmt::format("{} open files a process",
                          files < 0 ? "any number of" : fmt::format("{}", files)),
              found);
}

void add_names(const Ranks& ranks, std::vector<Finding>& found) {
  const bool several = hosts_of(ranks).size() > 1;
  const auto complain = [&](const std::string& name, const HostView& host) -> Finding {
    if (host.first->host.name_resolves) return {};
    return {several ? Verdict::wrong : Verdict::warning, "",
            fmt::format("host {} does not find an address for its own name: runs over several "
                        "hosts need one, in /etc/hosts or DNS",
                        name)};
  };
  add_by_host(ranks, complain, "names", "every host finds its own address", found);
}

void add_gpus(const Ranks& ranks, std::vector<Finding>& found) {
  const auto complain = [](const std::string& name, const HostView& host) -> Finding {
    if (!host.first->host.gpu_driver) return {};
    return {Verdict::warning, "",
            fmt::format("host {} has an NVIDIA driver, but this program is built without CUDA and "
                        "NCCL: it trains on CPUs",
                        name)};
  };
  add_by_host(ranks, complain, "GPU", "none here; built without CUDA and NCCL", found);
}

void add_links(const Ranks& ranks, std::vector<Finding>& found) {
  if (ranks.size() < 2) return;
  constexpr double k_slow = 0.25;
  constexpr double k_long_wake_s = 2e-3;
  const std::vector<DoctorFacts> linked(ranks.begin(), ranks.end() - 1);
  const auto [slowest, fastest] =
      std::minmax_element(linked.begin(), linked.end(), [](const auto& a, const auto& b) {
        return a.next_link.bytes_per_s < b.next_link.bytes_per_s;
      });
  const auto& latest =
      *std::max_element(linked.begin(), linked.end(), [](const auto& a, const auto& b) {
        return a.next_link.woken_latency_s < b.next_link.woken_latency_s;
      });
  std::string text =
      fmt::format("{:.1f} us, {:.2f} GB/s between neighbours at best",
                  1e6 * fastest->next_link.latency_s, fastest->next_link.bytes_per_s / 1e9);
  const bool slow = slowest->next_link.bytes_per_s < k_slow * fastest->next_link.bytes_per_s;
  if (slow) {
    text += fmt::format("; {:.1f} us, {:.2f} GB/s between ranks {} and {}",
                        1e6 * slowest->next_link.latency_s, slowest->next_link.bytes_per_s / 1e9,
                        slowest->place.rank, slowest->place.rank + 1);
  }
  found.push_back({Verdict::fine, "links", text});
  const double wake_s = latest.next_link.woken_latency_s;
  const std::string waking =
      fmt::format("a waiting rank has a message after {:.0f} us", 1e6 * wake_s);
  found.push_back(wake_s > k_long_wake_s
                      ? Finding{Verdict::warning, "waking",
                                fmt::format("{} between ranks {} and {}: they do not get a core "
                                            "when they need one",
                                            waking, latest.place.rank, latest.place.rank + 1)}
                      : Finding{Verdict::fine, "waking", waking + " at most"});
}

}  // namespace

std::vector<Finding> findings(const std::vector<DoctorFacts>& ranks) {
  std::vector<Finding> found{launch_of(ranks), mpi_of(ranks), hdf5_of(ranks)};
  add_placement(ranks, found);
  found.push_back(cpu_of(ranks));
  found.push_back(speed_of(ranks));
  add_load(ranks, found);
  add_memory(ranks, found);
  add_quota(ranks, found);
  add_shared_memory(ranks, found);
  add_limits(ranks, found);
  add_names(ranks, found);
  add_gpus(ranks, found);
  add_links(ranks, found);
  return found;
}

}  // namespace dynpipe::app
