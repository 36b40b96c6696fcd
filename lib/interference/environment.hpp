#pragma once

#include "base/known.hpp"
#include "interference/stage_features.hpp"

namespace dynpipe::interference {

/// What is known of a rank's surroundings from one interval of training: plain numbers that travel
/// as bytes, `base::k_unknown` where nobody could tell. Nothing in it depends on how long the rank
/// was idle.
struct Environment {
  double slowdown = 1;  ///< its compute time over what the profile says of the same work
  /// Relative standard deviation of `slowdown`: what the rank's own noise may have made of it.
  double slowdown_error = base::k_unknown;
  // The same of its layers by what they are bound by, see `slowdowns_by_bound`.
  double arithmetic_slowdown = base::k_unknown;
  double memory_slowdown = base::k_unknown;

  // Of the time in which the rank had something to run; the rest of it, it ran.
  double run_wait_share = base::k_unknown;   ///< another task had its core
  double throttled_share = base::k_unknown;  ///< its control group had used up its quota
  /// Of the time in which its cores were wanted: the host of the virtual machine had them.
  double stolen_share = base::k_unknown;

  double switches_per_s = base::k_unknown;  ///< involuntary ones, a second on the core
  double faults_per_s = base::k_unknown;    ///< page faults from disk, a second on the core

  StageFeatures stage;  ///< what it ran meanwhile
};

/// How much longer work takes of which this share is lost: 1 / (1 - share); 1 where unknown. The
/// share counts as at most 0.99.
double stretch(double lost_share);

/// `slowdown` without what waiting for the core, throttling and steal explain: what the work itself
/// took longer on the core. Caches and memory shared with others do that, or a slower clock.
double core_slowdown(const Environment& environment);

}  // namespace dynpipe::interference
