#pragma once

#include "base/clock.hpp"
#include "comm/channel.hpp"

namespace dynpipe::comm {

/// How a rank's clock stands to that of rank 0.
struct ClockOffset {
  double offset_s = 0;  ///< to be added to the rank's times to have those of rank 0
  double error_s = 0;   ///< at most: half of the round trip that it was found by
};

/// Compares this rank's clock with that of rank 0, one rank after another, by messages to and fro:
/// rank 0's time is taken to be that of the middle of the fastest round trip (Cristian 1989).
/// Collective over ranks [0, `ranks`); the offset of rank 0 is 0.
ClockOffset find_clock_offset(Channel& channel, int ranks, const base::Clock& clock);

}  // namespace dynpipe::comm
