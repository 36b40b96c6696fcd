#pragma once

#include "interference/environment.hpp"
#include "probe/activity.hpp"

namespace dynpipe::app {

/// Puts what the OS says of an interval into a rank's environment: times become shares of the time
/// in which it had something to run, counts become rates.
void add_activity(interference::Environment& environment, const probe::ActivitySample& activity);

}  // namespace dynpipe::app
