#include "comm/clock_offset.hpp"

#include <span>

namespace dynpipe::comm {
namespace {

constexpr int k_rounds = 16;

void exchange(Channel& channel, double& value, std::int64_t index, int from, int to) {
  const MessageName name{Payload::clock, index, from, to};
  const auto bytes = std::as_writable_bytes(std::span(&value, 1));
  channel.wait(channel.rank() == from ? channel.send(name, bytes, {})
                                      : channel.receive(name, bytes, {}));
}

}  // namespace

ClockOffset find_clock_offset(Channel& channel, int ranks, const base::Clock& clock) {
  ClockOffset best;
  const int own = channel.rank();
  for (int rank = 1; rank < ranks; ++rank) {
    if (own != 0 && own != rank) continue;
    for (int round = 0; round < k_rounds; ++round) {
      double sent_s = clock.now_s();
      exchange(channel, sent_s, 2 * round, rank, 0);
      double reference_s = clock.now_s();
      exchange(channel, reference_s, 2 * round + 1, 0, rank);
      if (own == 0) continue;
      const double back_s = clock.now_s();
      const double error_s = (back_s - sent_s) / 2;
      if (round == 0 || error_s < best.error_s) {
        best = {reference_s - (sent_s + back_s) / 2, error_s};
      }
    }
  }
  return best;
}

}  // namespace dynpipe::comm
