#include "planner/cycle_formula.hpp"

#include <algorithm>
#include <stdexcept>

namespace dynpipe::planner {

double cycle_period_s(std::span<const double> stage_s, std::span<const double> link_s,
                      std::span<const int> warmups) {
  const std::size_t stages = stage_s.size();
  if (stages == 0 || link_s.size() != stages - 1 || warmups.size() != stages) {
    throw std::logic_error("a pipeline of S stages has S warm-ups and S - 1 links");
  }
  double period_s = 0;
  for (std::size_t i = 0; i < stages; ++i) {
    double chain_s = 0;
    for (std::size_t j = i; j < stages; ++j) {
      chain_s += stage_s[j] + (j > i ? 2 * link_s[j - 1] : 0);
      period_s = std::max(period_s, chain_s / (warmups[i] - warmups[j] + 1));
    }
  }
  return period_s;
}

}  // namespace dynpipe::planner
