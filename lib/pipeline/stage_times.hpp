#pragma once

namespace dynpipe::pipeline {

/// Where a rank's time went, in seconds of the injected clock.
struct StageTimes {
  double forward = 0, backward = 0, update = 0;
  double wait_activation = 0, wait_gradient = 0, wait_reduction = 0;
  double wait_send = 0;  ///< for the next or previous stage to take what was sent
  double total = 0;      ///< of training segments, drained

  double busy() const { return forward + backward + update; }
  double waiting() const { return wait_activation + wait_gradient + wait_reduction + wait_send; }
};

}  // namespace dynpipe::pipeline
