#include "interference/environment.hpp"

#include <algorithm>

namespace dynpipe::interference {

double stretch(double lost_share) {
  constexpr double k_most = 0.99;
  return base::is_known(lost_share) ? 1 / (1 - std::clamp(lost_share, 0.0, k_most)) : 1;
}

double core_slowdown(const Environment& environment) {
  const double kept =
      1 / stretch(environment.run_wait_share) + 1 / stretch(environment.throttled_share) - 1;
  constexpr double k_least = 0.01;
  return environment.slowdown * std::max(kept, k_least) / stretch(environment.stolen_share);
}

}  // namespace dynpipe::interference
