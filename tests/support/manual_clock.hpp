#pragma once

#include "base/clock.hpp"

namespace dynpipe::testing {

/// Time passes when the test says so.
class ManualClock final : public base::Clock {
 public:
  double now_s() const override { return now_s_; }
  void pass(double seconds) { now_s_ += seconds; }

 private:
  double now_s_ = 1000;
};

}  // namespace dynpipe::testing
