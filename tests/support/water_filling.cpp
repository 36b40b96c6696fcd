#include "support/water_filling.hpp"

#include <algorithm>
#include <limits>

namespace dynpipe::testing {

std::map<int, double> water_filling(const std::vector<double>& capacities,
                                    const FlowChannels& flows) {
  std::map<int, double> rates;
  std::vector<double> left = capacities;
  FlowChannels open = flows;
  while (!open.empty()) {
    double least = std::numeric_limits<double>::infinity();
    std::vector<int> on(capacities.size(), 0);
    for (const auto& [flow, channels] : open) {
      for (int c : channels) ++on[static_cast<std::size_t>(c)];
    }
    std::size_t full = 0;
    for (std::size_t c = 0; c < capacities.size(); ++c) {
      if (on[c] > 0 && left[c] / on[c] < least) {
        least = left[c] / on[c];
        full = c;
      }
    }
    for (auto it = open.begin(); it != open.end();) {
      const auto& channels = it->second;
      if (std::ranges::find(channels, static_cast<int>(full)) == channels.end()) {
        ++it;
        continue;
      }
      rates[it->first] = least;
      for (int c : channels) left[static_cast<std::size_t>(c)] -= least;
      it = open.erase(it);
    }
  }
  return rates;
}

}  // namespace dynpipe::testing
