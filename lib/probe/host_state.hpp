#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dynpipe::probe {

/// What else of a host a run may stumble over, as it is at this moment.
struct HostState {
  std::int64_t shm_bytes = 0;     ///< free in /dev/shm, where messages between ranks lie; -1: none
  std::int64_t open_files = 0;    ///< that a process may have (ulimit -n); -1: any number
  std::int64_t locked_bytes = 0;  ///< that a process may lock (ulimit -l); -1: any
  bool name_resolves = false;     ///< the host's own name has an address
  bool gpu_driver = false;        ///< NVIDIA's
  std::vector<std::string> fabrics;  ///< InfiniBand and the like: "mlx5_0"
};
HostState host_state();

/// Cores' worth of CPU time that other processes than these ranks use on this host: those that the
/// host was busy for `seconds`, less those that the ranks used. `ticks` are the host's.
double other_load(std::int64_t ticks, double ticks_per_s, double own_s, double seconds);

/// CPU time that the calling process has used, and ticks a second of /proc/stat.
double own_cpu_s();
double ticks_per_s();

}  // namespace dynpipe::probe
