#pragma once

#include "comm/channel.hpp"
#include "comm/world.hpp"

namespace dynpipe::probe {

/// What messages to the next rank take, at best and as they are when the other is not looking.
struct LinkTiming {
  double latency_s = 0;        ///< of 8 bytes one way, both ranks looking all the time
  double bytes_per_s = 0;      ///< one way, of messages of 1 MiB
  double woken_latency_s = 0;  ///< of 8 bytes to a rank that naps between looks, as in training
};

/// Ping-pong between ranks r and r + 1, every other pair at a time: medians of up to 0.2 s each.
/// Collective; a rank's result is of its link to the next, zero on the last. `attentive` and
/// `napping` are channels of the same ranks, with and without long spinning.
LinkTiming time_links(comm::World& world, comm::Channel& attentive, comm::Channel& napping,
                      const base::Clock& clock);

}  // namespace dynpipe::probe
