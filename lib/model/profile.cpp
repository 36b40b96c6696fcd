#include "model/profile.hpp"

#include <algorithm>
#include <stdexcept>

namespace dynpipe::model {
namespace {

/// On the line through (x0, y0) and (x1, y1), but never below zero.
double on_line(double x0, double y0, double x1, double y1, double x) {
  return std::max(0.0, y0 + (y1 - y0) * (x - x0) / (x1 - x0));
}

}  // namespace

LayerTimes Profile::times(int layer, std::int64_t n) const {
  const std::vector<LayerTimes>& measured = layers.at(static_cast<std::size_t>(layer)).times;
  if (measured.empty() || measured.size() != samples.size()) {
    throw std::logic_error("a profile has times for every measured size");
  }
  if (n <= 0) return {};
  const auto x = static_cast<double>(n);
  if (samples.size() == 1) {
    const double times = x / static_cast<double>(samples.front());
    const LayerTimes& one = measured.front();
    return {one.forward_s * times, one.backward_input_s * times, one.backward_weight_s * times};
  }
  // The pair around n, or the nearest one.
  const auto above = std::lower_bound(samples.begin() + 1, samples.end() - 1, n);
  const auto upper = static_cast<std::size_t>(above - samples.begin());
  const auto x0 = static_cast<double>(samples[upper - 1]);
  const auto x1 = static_cast<double>(samples[upper]);
  const LayerTimes& low = measured[upper - 1];
  const LayerTimes& high = measured[upper];
  return {on_line(x0, low.forward_s, x1, high.forward_s, x),
          on_line(x0, low.backward_input_s, x1, high.backward_input_s, x),
          on_line(x0, low.backward_weight_s, x1, high.backward_weight_s, x)};
}

}  // namespace dynpipe::model
