#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probe/text_file.hpp"

namespace dynpipe::probe {

/// What the OS schedules on: a hardware thread of a core.
struct Cpu {
  int id = 0;    ///< the OS's number
  int core = 0;  ///< smallest id among the hardware threads of the same core
  int node = 0;  ///< NUMA node

  friend bool operator==(const Cpu&, const Cpu&) = default;
};

/// All that are online, by id. Where the files do not tell, each is a core of its own in node 0.
std::vector<Cpu> online_cpus(const ReadText& read);
/// Ids of those that the calling thread may run on.
std::vector<int> allowed_cpus();
/// Those of `cpus` whose ids are in `ids`.
std::vector<Cpu> with_ids(const std::vector<Cpu>& cpus, const std::vector<int>& ids);

/// The distinct cores of these, and their distinct NUMA nodes, sorted.
std::vector<int> cores_of(const std::vector<Cpu>& cpus);
std::vector<int> nodes_of(const std::vector<Cpu>& cpus);
int core_count(const std::vector<Cpu>& cpus);

/// What /proc/cpuinfo says of the first CPU.
struct CpuModel {
  std::string name;                     ///< "AMD EPYC 7763 64-Core Processor"; "" where not said
  std::vector<std::string> extensions;  ///< of the x86 vector extensions that matter for speed
};
CpuModel parse_cpuinfo(std::string_view text);

}  // namespace dynpipe::probe
