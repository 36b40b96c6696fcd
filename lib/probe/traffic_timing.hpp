#pragma once

#include <cstddef>

#include "comm/channel.hpp"
#include "comm/world.hpp"

namespace dynpipe::probe {

/// What messages of one size between a rank and the next take: latency_s + bytes / rate.
struct TrafficTiming {
  double latency_s = 0;              ///< of 8 bytes one way
  double bytes_per_s = 0;            ///< one way
  double both_ways_bytes_per_s = 0;  ///< each way, while as much goes the other way
  /// Share of a transfer that costs the receiving rank no time of its own: 1 - (what the transfer
  /// adds to a computation of about its length) / (what the transfer takes alone), within [0, 1].
  double overlap = 0;
};

/// Medians over messages of `message_bytes`, of up to about a second a pair of ranks, every other
/// pair at a time. While ranks compute they move messages on as often as training does between
/// layers. Collective; a rank's result is of its link to the next, zero on the last. `channel`
/// spins while it waits.
TrafficTiming time_traffic(comm::World& world, comm::Channel& channel, std::size_t message_bytes,
                           const base::Clock& clock);

}  // namespace dynpipe::probe
