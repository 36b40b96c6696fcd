#include "probe/traffic_timing.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

namespace dynpipe::probe {
namespace {

using comm::Channel;
using comm::Payload;

constexpr std::size_t k_small_bytes = 8;
constexpr std::size_t k_small_messages = 200, k_large_messages = 30;
/// No series of messages takes longer, however slow the link is.
constexpr double k_longest_series_s = 0.2;
/// From one look at messages in flight to the next, in a computation.
constexpr double k_between_looks_s = 20e-6;
constexpr double k_shortest_computation_s = 200e-6;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Arithmetic that stays in registers: a neighbour's transfers cost it time, not memory bandwidth.
class Computation {
 public:
  /// Pieces of about k_between_looks_s.
  explicit Computation(const base::Clock& clock) {
    constexpr int k_probe = 20000;
    std::vector<double> times;
    for (int round = 0; round < 9; ++round) {
      const double began_s = clock.now_s();
      piece(k_probe);
      times.push_back(clock.now_s() - began_s);
    }
    const double each_s = std::max(median(std::move(times)) / k_probe, 1e-12);
    steps_ = std::max(1, static_cast<int>(k_between_looks_s / each_s));
  }
  void run(int pieces, Channel& channel) {
    for (int i = 0; i < pieces; ++i) {
      piece(steps_);
      channel.poll();
    }
  }

 private:
  void piece(int steps) {
    double x = state_;
    for (int i = 0; i < steps; ++i) x = x * 0.999999 + 1e-6;
    state_ = x;
  }

  volatile double state_ = 0.5;
  int steps_ = 1;
};

/// One end of a link.
class End {
 public:
  End(Channel& channel, int own, int peer, std::size_t bytes)
      : channel_(channel), own_(own), peer_(peer), out_(bytes), in_(bytes) {}

  void send(std::size_t bytes, bool last) { channel_.wait(post_send(bytes, last)); }
  /// Whether it was the last.
  bool receive(std::size_t bytes) {
    channel_.wait(post_receive(bytes));
    return was_last();
  }
  /// Both at once; whether what came was the last.
  bool exchange(std::size_t bytes, bool last) {
    const comm::Ticket in = post_receive(bytes);
    const comm::Ticket out = post_send(bytes, last);
    channel_.wait(in);
    channel_.wait(out);
    return was_last();
  }
  comm::Ticket post_send(std::size_t bytes, bool last) {
    out_[0] = std::byte{last};
    return channel_.send({Payload::activation, 0, own_, peer_}, {out_.data(), bytes}, {});
  }
  comm::Ticket post_receive(std::size_t bytes) {
    return channel_.receive({Payload::activation, 0, peer_, own_}, {in_.data(), bytes}, {});
  }
  /// A value for the other end, and the other end's.
  template <typename T>
  void give(const T& value) {
    std::array<std::byte, sizeof value> bytes{};
    std::memcpy(bytes.data(), &value, sizeof value);
    channel_.wait(channel_.send({Payload::gradient, 0, own_, peer_}, bytes, {}));
  }
  template <typename T>
  T take() {
    T value{};
    std::array<std::byte, sizeof value> bytes{};
    channel_.wait(channel_.receive({Payload::gradient, 0, peer_, own_}, bytes, {}));
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  Channel& channel() { return channel_; }

 private:
  bool was_last() const { return in_[0] != std::byte{0}; }

  Channel& channel_;
  int own_, peer_;
  std::vector<std::byte> out_, in_;
};

struct Series {
  std::size_t bytes;
  std::size_t most;  ///< messages
};

/// Median time of a round trip, or of an exchange, on the side that says when it is over.
template <typename Round>
double lead(const Series& series, const base::Clock& clock, Round&& round) {
  std::vector<double> times;
  const double first_s = clock.now_s();
  for (bool last = false; !last;) {
    const double began_s = clock.now_s();
    last = times.size() + 1 >= series.most || began_s - first_s > k_longest_series_s;
    round(last);
    times.push_back(clock.now_s() - began_s);
  }
  return median(std::move(times));
}

double lead_trips(End& end, const Series& series, const base::Clock& clock) {
  return lead(series, clock,
              [&](bool last) {
                end.send(series.bytes, last);
                end.receive(series.bytes);
              }) /
         2;
}
void follow_trips(End& end, std::size_t bytes) {
  for (bool last = false; !last;) {
    last = end.receive(bytes);
    end.send(bytes, last);
  }
}

/// How the two sides measure what overlaps: agreed on by the first.
struct OverlapPlan {
  double transfer_s = 0;  ///< alone, without the latency
  int pieces = 0;         ///< of the computation
  int rounds = 0;         ///< each once with a transfer, once without
};

OverlapPlan overlap_plan(double transfer_s) {
  const double computation_s = std::max(transfer_s, k_shortest_computation_s);
  const double round_s = 2 * computation_s + transfer_s;
  return {transfer_s, static_cast<int>(computation_s / k_between_looks_s) + 1,
          static_cast<int>(std::clamp(k_longest_series_s / round_s, 3.0, 25.0))};
}

/// The side from which the transfers come: it computes too, as it would in training.
void overlap_sender(End& end, const OverlapPlan& plan, std::size_t bytes, Computation& work) {
  for (int round = 0; round < plan.rounds; ++round) {
    for (const bool with_transfer : {false, true}) {
      end.exchange(k_small_bytes, false);
      if (!with_transfer) {
        work.run(plan.pieces, end.channel());
        continue;
      }
      const comm::Ticket leaving = end.post_send(bytes, false);
      work.run(plan.pieces, end.channel());
      end.channel().wait(leaving);
    }
  }
}

/// What a transfer adds to this side's computation, over what it takes alone.
double overlap_receiver(End& end, const OverlapPlan& plan, std::size_t bytes, Computation& work,
                        const base::Clock& clock) {
  std::vector<double> added;
  for (int round = 0; round < plan.rounds; ++round) {
    std::array<double, 2> times{};
    for (const bool with_transfer : {false, true}) {
      std::optional<comm::Ticket> arriving;
      end.exchange(k_small_bytes, false);
      const double began_s = clock.now_s();
      if (with_transfer) arriving = end.post_receive(bytes);
      work.run(plan.pieces, end.channel());
      if (arriving) end.channel().wait(*arriving);
      times[with_transfer ? 1 : 0] = clock.now_s() - began_s;
    }
    added.push_back(times[1] - times[0]);
  }
  return plan.transfer_s > 0 ? median(std::move(added)) / plan.transfer_s : 0;
}

TrafficTiming lead_link(End& end, std::size_t bytes, Computation& work, const base::Clock& clock) {
  const Series large{bytes, k_large_messages};
  TrafficTiming timing;
  timing.latency_s = lead_trips(end, {k_small_bytes, k_small_messages}, clock);
  const auto beyond_latency = [&](double seconds) {
    return std::max(seconds - timing.latency_s, 1e-9);
  };
  const double transfer_s = beyond_latency(lead_trips(end, large, clock));
  const double both_ways_s =
      beyond_latency(lead(large, clock, [&](bool last) { end.exchange(bytes, last); }));
  timing.bytes_per_s = static_cast<double>(bytes) / transfer_s;
  timing.both_ways_bytes_per_s = static_cast<double>(bytes) / both_ways_s;
  const OverlapPlan plan = overlap_plan(transfer_s);
  end.give(plan);
  overlap_sender(end, plan, bytes, work);
  timing.overlap = std::clamp(1 - end.take<double>(), 0.0, 1.0);
  return timing;
}

void follow_link(End& end, std::size_t bytes, Computation& work, const base::Clock& clock) {
  follow_trips(end, k_small_bytes);
  follow_trips(end, bytes);
  while (!end.exchange(bytes, false)) {
  }
  end.give(overlap_receiver(end, end.take<OverlapPlan>(), bytes, work, clock));
}

}  // namespace

TrafficTiming time_traffic(comm::World& world, Channel& channel, std::size_t message_bytes,
                           const base::Clock& clock) {
  const std::size_t bytes = std::max(message_bytes, k_small_bytes);
  const int rank = world.rank();
  Computation work(clock);
  TrafficTiming timing;
  for (int first = 0; first < 2; ++first) {
    world.barrier();
    const bool leads = rank % 2 == first;
    const int peer = leads ? rank + 1 : rank - 1;
    if (peer < 0 || peer >= world.size()) continue;
    End end(channel, rank, peer, bytes);
    if (leads) {
      timing = lead_link(end, bytes, work, clock);
    } else {
      follow_link(end, bytes, work, clock);
    }
  }
  world.barrier();
  return timing;
}

}  // namespace dynpipe::probe
