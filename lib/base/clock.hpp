#pragma once

#include <chrono>

namespace dynpipe::base {

/// Where every part of the runtime reads the time, so that tests and emulation can inject their
/// own.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Seconds since an arbitrary fixed moment, never decreasing.
  virtual double now_s() const = 0;
};

class SteadyClock final : public Clock {
 public:
  double now_s() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace dynpipe::base
