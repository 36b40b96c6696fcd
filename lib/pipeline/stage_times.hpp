#pragma once

#include <cstdint>

namespace dynpipe::pipeline {

/// Where a rank's time went, in seconds of the injected clock, and how many transfers it hid.
struct StageTimes {
  double forward = 0, backward = 0, update = 0;
  double wait_activation = 0, wait_gradient = 0, wait_reduction = 0;
  double wait_send = 0;  ///< for the next or previous stage to take what was sent
  double total = 0;      ///< of training segments, drained

  std::int64_t arrivals = 0;  ///< activations and gradients that came from other ranks
  std::int64_t in_time = 0;   ///< those of them that were there when they were needed

  double busy() const { return forward + backward + update; }
  /// Of the arrivals: the transfers that compute hid.
  double in_time_share() const {
    return arrivals > 0 ? static_cast<double>(in_time) / static_cast<double>(arrivals) : 1;
  }
  double waiting() const { return wait_activation + wait_gradient + wait_reduction + wait_send; }
};

}  // namespace dynpipe::pipeline
