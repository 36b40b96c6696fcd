#pragma once

#include <limits>

namespace dynpipe::base {

/// A figure that nobody could tell, in data that travels as plain numbers. Compares equal to
/// nothing: ask `is_known`.
inline constexpr double k_unknown = std::numeric_limits<double>::quiet_NaN();

constexpr bool is_known(double figure) {
  return figure == figure;
}

}  // namespace dynpipe::base
