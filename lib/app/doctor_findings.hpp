#pragma once

#include <string>
#include <vector>

#include "app/doctor_facts.hpp"

namespace dynpipe::app {

enum class Verdict {
  fine,
  warning,  ///< it works, but not as well as it could
  wrong,    ///< it fails, or cannot be what was meant
};

/// A line of `dynpipe doctor`.
struct Finding {
  Verdict verdict = Verdict::fine;
  std::string topic;  ///< "memory"
  std::string text;   ///< what there is, or what is wrong and how to mend it
};

/// What the facts of all ranks, by rank, come to. Pure.
std::vector<Finding> findings(const std::vector<DoctorFacts>& ranks);

}  // namespace dynpipe::app
