#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace dynpipe::probe {

/// From /proc/meminfo.
struct HostMemory {
  std::int64_t total_bytes = 0;
  std::int64_t available_bytes = 0;  ///< what can be had without swapping
};
/// Nothing where one of the two is not there.
std::optional<HostMemory> parse_meminfo(std::string_view text);

/// Resident memory of a process from its /proc/PID/status: now and at most so far; 0 where not
/// said.
struct ProcessMemory {
  std::int64_t resident_bytes = 0;
  std::int64_t peak_bytes = 0;
};
ProcessMemory parse_status(std::string_view text);

/// CPU time of all processes of a host since it started, from the first line of /proc/stat, in
/// ticks.
struct CpuTicks {
  std::int64_t busy = 0;
  std::int64_t stolen = 0;  ///< time that the host of this virtual machine gave to others
};
/// Nothing where the line is not there.
std::optional<CpuTicks> parse_cpu_ticks(std::string_view text);

}  // namespace dynpipe::probe
