#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace dynpipe::planner {

/// A rank of the described machine.
struct ClusterRank {
  std::string name;     ///< an end of links
  double slowdown = 1;  ///< time here / time on the device of the profile
  std::int64_t memory_bytes = std::numeric_limits<std::int64_t>::max();
};

/// A cable or bus between two ends, ranks or switches. Each direction has the whole rate, shared
/// among the messages on it (max-min); a half-duplex link shares one rate among both.
struct ClusterLink {
  std::string name;
  int from = 0, to = 0;  ///< ends: ranks first, by number, then switches
  double latency_s = 0;
  double bytes_per_s = 0;
  bool full_duplex = true;
  /// Share of a transfer's time in which the receiving rank computes on (see model::LinkProfile);
  /// of a route, the least of its links.
  double overlap = 1;
};

/// From `start_s` to `end_s` a rank's steps, or a link's transfers, take `slowdown` times as long.
/// Events of one rank or link do not overlap in time.
struct Interference {
  enum class Of : std::uint8_t { rank, link } of = Of::rank;
  int index = 0;
  double start_s = 0, end_s = 0;
  double slowdown = 1;
};

/// How a rank that waits looks for what it waits for: all the time at first, then between naps,
/// each a fifth of the wait so far within bounds, as comm::Channel does. Without naps, all the
/// time.
struct Waiting {
  double spin_s = 0, nap_s = 0, longest_nap_s = 0;

  /// After how long a rank notices what comes `wait_s` after it began to wait.
  double noticed_s(double wait_s) const;
};

/// A described machine: ranks, the network between them, and what disturbs them when.
struct Cluster {
  std::string name;
  std::vector<ClusterRank> ranks;
  std::vector<std::string> switches;
  std::vector<ClusterLink> links;
  std::vector<Interference> events;
  Waiting waiting;    ///< of all ranks
  double jitter = 0;  ///< standard deviation of a step's time, over its mean

  int size() const { return static_cast<int>(ranks.size()); }
};

/// N equal ranks, all joined by one switch through links of this kind.
Cluster uniform_cluster(int ranks, double latency_s, double bytes_per_s, double overlap = 1);

/// Throws InputError naming file and field: a link to an end that is not there, ranks that cannot
/// reach each other, overlapping events, events of unknown ranks or links, rates that are not
/// positive.
Cluster parse_cluster(std::string_view json_text, const std::string& file);
/// What `parse_cluster` reads, laid out for people.
std::string to_json(const Cluster& cluster);

}  // namespace dynpipe::planner
