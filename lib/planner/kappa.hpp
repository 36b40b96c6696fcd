#pragma once

#include <span>

namespace dynpipe::planner {

/// Of a model that was not measured.
inline constexpr double k_assumed_kappa = 0.05;

/// How fast gradients turn as weights move on, from the cosines between them.
struct KappaFit {
  double kappa = 0;   ///< an update with delay tau is worth 1 / (1 + kappa tau) of one without
  double signal = 0;  ///< cosine of two gradients of the same weights: what samples have in common
};

/// Fits c_l = signal / (1 + kappa l) to the cosines c_1, c_2, ... between the gradient of an update
/// and those 1, 2, ... updates before it.
///
/// Two gradients of a noisy loss agree little even at the same weights; what delay adds to that is
/// how much less they agree when their weights are further apart. An update's progress is that of
/// its component along the gradient of the weights that it changes, so that with delay tau it takes
/// c_0 / c_tau = 1 + kappa tau times as many. The fit is least squares over signal and kappa; kappa
/// is 0 where there are fewer than two cosines or nothing is in common, and at most 1: where
/// gradients oppose each other after a few updates, at the edge of stability, the fit itself has no
/// bound.
KappaFit fit_kappa(std::span<const double> cosines);

}  // namespace dynpipe::planner
