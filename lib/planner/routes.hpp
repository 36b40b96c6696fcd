#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "planner/cluster.hpp"

namespace dynpipe::planner {

/// The way of messages from one rank to another.
struct Route {
  /// What it takes a share of, in order: of link l, 2 l from its `from` to its `to` and 2 l + 1
  /// back; 2 l both ways where it is half-duplex.
  std::vector<int> channels;
  double latency_s = 0;    ///< of all links together
  double bytes_per_s = 0;  ///< of the slowest link
  double overlap = 1;      ///< the least of the links
};

/// Shortest ways over a cluster: least latency, then fewest links. Of several equally short ones
/// the end they lead to decides, by its number, so that a fat tree's upper switches share the work
/// and every run takes the same way.
class Routes {
 public:
  /// The cluster must outlive it.
  explicit Routes(const Cluster& cluster);

  int channels() const { return 2 * static_cast<int>(cluster_.links.size()); }
  double capacity(int channel) const {
    return cluster_.links[static_cast<std::size_t>(channel / 2)].bytes_per_s;
  }
  /// The route between two different ranks; stays valid as long as this does. Throws
  /// std::logic_error where there is none.
  const Route& between(int from, int to);

 private:
  struct Step {
    int link, to;
  };
  struct Distance {
    double latency_s;
    int links;
    friend auto operator<=>(const Distance&, const Distance&) = default;
  };

  Route find(int from, int to);
  /// How far ends are from `to`, up to those as far as `from`, in `distances_`.
  void measure(int from, int to);
  /// The way on from `end`, closer to where was measured from.
  Step next_step(int end, int destination) const;
  bool leaf(int end) const { return steps_[static_cast<std::size_t>(end)].size() == 1; }
  void append(Route& route, int end, const Step& step) const;

  const Cluster& cluster_;
  std::vector<std::vector<Step>> steps_;  ///< by end
  std::vector<Distance> distances_;       ///< by end, of the last `measure`
  std::vector<int> measured_;             ///< ends that it reached
  std::unordered_map<std::uint64_t, const Route*> known_;
  std::deque<Route> routes_;
};

}  // namespace dynpipe::planner
