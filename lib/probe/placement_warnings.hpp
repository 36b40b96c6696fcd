#pragma once

#include <string>
#include <vector>

#include "probe/placement.hpp"

namespace dynpipe::probe {

struct PlacementWarning {
  std::string text;      ///< a line, with the numbers and the mend
  bool mistake = false;  ///< nobody can have wanted it
};

/// What is wrong with where ranks run. Crowds, which are mistakes unless they take the whole host,
/// quotas below the number of threads, ranks that may wander between NUMA nodes though one would
/// hold them.
std::vector<PlacementWarning> placement_warnings(const std::vector<RankPlace>& places);

/// "rank 3", "ranks 0 and 1", "ranks 0-7,9".
std::string name_ranks(const std::vector<int>& ranks);

}  // namespace dynpipe::probe
