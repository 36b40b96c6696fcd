#pragma once

#include <cmath>

namespace dynpipe::app {

/// Amount per second, of late: what lies t seconds back counts exp(-t / memory_s).
class RecentRatio {
 public:
  explicit RecentRatio(double memory_s) : memory_s_(memory_s) {}

  /// `amount` in the last `seconds`.
  void add(double amount, double seconds) {
    const double kept = std::exp(-seconds / memory_s_);
    amount_ = kept * amount_ + amount;
    seconds_ = kept * seconds_ + seconds;
  }
  bool known() const { return seconds_ > 0; }
  /// 0 while unknown.
  double value() const { return known() ? amount_ / seconds_ : 0; }

 private:
  double memory_s_;
  double amount_ = 0, seconds_ = 0;
};

}  // namespace dynpipe::app
