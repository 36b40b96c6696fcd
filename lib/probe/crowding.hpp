#pragma once

#include <string>
#include <vector>

#include "probe/placement.hpp"

namespace dynpipe::probe {

/// Ranks of one host that together have more threads than cores to run them on.
struct Crowd {
  std::string host;
  std::vector<int> ranks;
  int threads = 0;
  std::vector<Cpu> cpus;   ///< all that they may run on
  bool whole_host = true;  ///< these are all the host has
};
/// Where a host has fewer cores than its ranks have threads, all its ranks are one crowd;
/// elsewhere, ranks that may run on the same few cores alone are.
std::vector<Crowd> crowds(const std::vector<RankPlace>& places);

/// Whether the rank is in no crowd: it has a core for each of its threads.
bool has_its_cores(const std::vector<RankPlace>& places, int rank);

}  // namespace dynpipe::probe
