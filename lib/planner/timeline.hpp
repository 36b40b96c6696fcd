#pragma once

#include <vector>

#include "planner/cluster.hpp"

namespace dynpipe::planner {

/// How fast one rank or link is over time: at full speed but for its events.
class Timeline {
 public:
  Timeline() = default;
  /// The events of that rank or link among all.
  Timeline(const std::vector<Interference>& all, Interference::Of of, int index);

  bool steady() const { return events_.empty(); }
  const std::vector<Interference>& events() const { return events_; }  ///< by time
  /// When work that is begun at `start_s` and takes `work_s` undisturbed is done.
  double end_s(double start_s, double work_s) const {
    return events_.empty() ? start_s + work_s : disturbed_end_s(start_s, work_s);
  }

 private:
  double disturbed_end_s(double start_s, double work_s) const;

  std::vector<Interference> events_;
};

/// Timelines of all ranks, or of all links.
std::vector<Timeline> timelines(const std::vector<Interference>& events, Interference::Of of,
                                std::size_t count);

}  // namespace dynpipe::planner
