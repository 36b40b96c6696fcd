#pragma once

#include <algorithm>

#include "base/clock.hpp"

namespace dynpipe::emulate {

/// Time that passes only where it is told to: seconds of a described machine.
class VirtualClock final : public base::Clock {
 public:
  double now_s() const override { return now_s_; }
  /// Never back.
  void move_to(double time_s) { now_s_ = std::max(now_s_, time_s); }

 private:
  double now_s_ = 0;
};

}  // namespace dynpipe::emulate
