#include "planner/kappa.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace dynpipe::planner {
namespace {

constexpr double k_least = 1e-4, k_most = 1;  ///< of kappa, but for 0

struct Trial {
  double signal = 0, error = 0;
};

/// The signal, not below 0, that fits best with this kappa, and the squares that are left.
Trial try_kappa(std::span<const double> cosines, double kappa) {
  double with_cosines = 0, with_itself = 0;
  for (std::size_t i = 0; i < cosines.size(); ++i) {
    const double shape = 1 / (1 + kappa * static_cast<double>(i + 1));
    with_cosines += shape * cosines[i];
    with_itself += shape * shape;
  }
  Trial trial{std::max(0.0, with_cosines / with_itself), 0};
  for (std::size_t i = 0; i < cosines.size(); ++i) {
    const double shape = 1 / (1 + kappa * static_cast<double>(i + 1));
    const double off = cosines[i] - trial.signal * shape;
    trial.error += off * off;
  }
  return trial;
}

}  // namespace

KappaFit fit_kappa(std::span<const double> cosines) {
  if (cosines.size() < 2) return {0, cosines.empty() ? 0 : std::max(0.0, cosines.front())};
  // The error may have more than one valley: a grid finds the right one, then it is narrowed.
  constexpr int k_steps = 120;
  const double ratio = std::pow(k_most / k_least, 1.0 / k_steps);
  double best = 0;
  double least_error = try_kappa(cosines, 0).error;
  for (int i = 0; i <= k_steps; ++i) {
    const double kappa = k_least * std::pow(ratio, i);
    const double error = try_kappa(cosines, kappa).error;
    if (error < least_error) {
      least_error = error;
      best = kappa;
    }
  }
  double low = best / ratio, high = std::min(best * ratio, k_most);
  for (int i = 0; i < 60 && best > 0; ++i) {
    const double third = (high - low) / 3;
    const bool left =
        try_kappa(cosines, low + third).error < try_kappa(cosines, high - third).error;
    (left ? high : low) = left ? high - third : low + third;
    best = (low + high) / 2;
  }
  const double signal = try_kappa(cosines, best).signal;
  if (signal == 0) return {};
  return {best, signal};
}

}  // namespace dynpipe::planner
