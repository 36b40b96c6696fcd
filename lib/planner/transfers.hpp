#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/cluster.hpp"
#include "planner/event_queue.hpp"
#include "planner/fluid_network.hpp"
#include "planner/routes.hpp"
#include "planner/timeline.hpp"

namespace dynpipe::planner {

/// Messages under way on a cluster, on a simulated clock: each takes the latency of its links, then
/// its bytes at its share of them.
class Transfers {
 public:
  /// The cluster must outlive it.
  explicit Transfers(const Cluster& cluster);

  const Route& route(int from, int to) { return routes_.between(from, to); }
  /// What a message takes where nothing else is on its way.
  static double undisturbed_s(const Route& route, double bytes) {
    return route.latency_s + bytes / route.bytes_per_s;
  }

  struct Arrival {
    std::uint64_t tag;
    double time_s;
  };
  static constexpr double k_under_way = -1;
  /// A message departs, no earlier than `now_s`. Returns when it arrives where that is known at
  /// once, since it shares nothing; else k_under_way, and `advance` tells. `tag` is its own.
  double depart(const Route& route, double bytes, double depart_s, std::uint64_t tag);
  /// Goes on to the next moment when something happens. Returns false where nothing is under way.
  bool advance();
  /// What arrived then.
  std::span<const Arrival> arrivals() const { return arrivals_; }
  double now_s() const { return now_s_; }
  /// Bytes of messages that have passed.
  double carried(int channel) const { return network_.carried(channel); }

 private:
  struct Message {
    const Route* route = nullptr;
    double bytes = 0;
    std::uint64_t tag = 0;
    bool flows = false;  ///< past its latency
  };
  struct CapacityChange {
    double time_s;
    int channel;
    double bytes_per_s;
  };

  double after_latency_s(const Route& route, double depart_s) const;
  void plan_capacity_changes();
  int free_slot();

  const Cluster& cluster_;
  Routes routes_;
  FluidNetwork network_;
  EventQueue queue_;
  std::vector<Timeline> links_;
  std::vector<CapacityChange> changes_;  ///< by time
  std::size_t next_change_ = 0;
  std::vector<Message> messages_;  ///< by slot
  std::vector<int> free_;          ///< slots
  std::vector<Arrival> arrivals_;
  double now_s_ = 0;
};

}  // namespace dynpipe::planner
