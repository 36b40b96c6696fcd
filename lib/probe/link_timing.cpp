#include "probe/link_timing.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace dynpipe::probe {
namespace {

using comm::Channel;
using comm::Payload;

constexpr std::size_t k_small_bytes = 8;
constexpr std::size_t k_large_bytes = std::size_t{1} << 20U;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// One end of a link. The first byte of a message tells whether more follow.
class End {
 public:
  End(Channel& channel, int own, int peer) : channel_(channel), own_(own), peer_(peer) {}

  void send(std::size_t bytes, bool last) {
    buffer_[0] = std::byte{last};
    channel_.wait(
        channel_.send({Payload::activation, 0, own_, peer_}, {buffer_.data(), bytes}, {}));
  }
  /// Whether it was the last.
  bool receive(std::size_t bytes) {
    channel_.wait(
        channel_.receive({Payload::activation, 0, peer_, own_}, {buffer_.data(), bytes}, {}));
    return buffer_[0] != std::byte{0};
  }

 private:
  Channel& channel_;
  int own_, peer_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(k_large_bytes);
};

/// Round trips: how long their messages are, how many at most, with a pause before each.
struct Series {
  std::size_t bytes;
  std::size_t count;
  std::chrono::microseconds pause{0};
};

/// No series takes longer, however slow the link is.
constexpr double k_longest_series_s = 0.2;

/// Median time one way, seen from the side that sends first.
double send_first(End end, const Series& series, const base::Clock& clock) {
  std::vector<double> trips;
  const double first_s = clock.now_s();
  for (bool last = false; !last;) {
    if (series.pause.count() > 0) std::this_thread::sleep_for(series.pause);
    const double began_s = clock.now_s();
    last = trips.size() + 1 >= series.count || began_s - first_s > k_longest_series_s;
    end.send(series.bytes, last);
    end.receive(series.bytes);
    trips.push_back(clock.now_s() - began_s);
  }
  return median(std::move(trips)) / 2;
}

void answer(End end, const Series& series) {
  for (bool last = false; !last;) {
    last = end.receive(series.bytes);
    end.send(series.bytes, last);
  }
}

constexpr Series k_small{k_small_bytes, 200};
constexpr Series k_large{k_large_bytes, 10};
constexpr Series k_napping{k_small_bytes, 20, std::chrono::microseconds(1500)};

}  // namespace

LinkTiming time_links(comm::World& world, Channel& attentive, Channel& napping,
                      const base::Clock& clock) {
  const int rank = world.rank();
  LinkTiming timing;
  for (int first = 0; first < 2; ++first) {
    world.barrier();
    const bool sends_first = rank % 2 == first;
    const int peer = sends_first ? rank + 1 : rank - 1;
    if (peer < 0 || peer >= world.size()) continue;
    if (!sends_first) {
      answer({attentive, rank, peer}, k_small);
      answer({attentive, rank, peer}, k_large);
      answer({napping, rank, peer}, k_napping);
      continue;
    }
    timing.latency_s = send_first({attentive, rank, peer}, k_small, clock);
    timing.bytes_per_s =
        static_cast<double>(k_large_bytes) / send_first({attentive, rank, peer}, k_large, clock);
    timing.woken_latency_s = send_first({napping, rank, peer}, k_napping, clock);
  }
  world.barrier();
  return timing;
}

}  // namespace dynpipe::probe
