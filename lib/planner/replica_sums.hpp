#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"
#include "planner/simulator.hpp"
#include "planner/transfers.hpp"

namespace dynpipe::planner {

/// The sums of gradients over the replicas of stages, group by group, as comm::OrderedSum makes
/// them: each replica sends every other its slice of the gradients, and when all of its own
/// messages are through, the sum of the slice that is its to add up. A message departs when both
/// are so far.
class ReplicaSums {
 public:
  /// Of groups [first_group, end_group). Plan, work and transfers must outlive it.
  ReplicaSums(const plan::Plan& plan, const Workload& work, Transfers& transfers,
              std::int64_t first_group, std::int64_t end_group);

  /// Whether a tag is of one of its messages.
  static bool owns(std::uint64_t tag) { return (tag & k_own) != 0; }

  /// A replica's gradients are complete.
  void start(int stage, int replica, std::int64_t group, double now_s);
  /// A message that `Transfers::advance` tells of.
  void arrived(const Transfers::Arrival& arrival);

  /// When a replica has the sum, or a negative number as long as it has not.
  double done_s(int stage, int replica, std::int64_t group) const {
    return parts_[at(stage, replica, group)].done_s;
  }
  /// Time of the replica's messages that does not overlap with its steps.
  double unhidden_s(int stage, int replica, std::int64_t group) const {
    return parts_[at(stage, replica, group)].unhidden_s;
  }
  /// Ranks that got a sum since the list was cleared; the caller clears it.
  std::vector<int>& finished() { return finished_; }

 private:
  static constexpr std::uint64_t k_own = std::uint64_t{1} << 63U;
  static constexpr unsigned k_replica_bits = 17;  // of more ranks than any cluster has

  /// One replica's part of one sum.
  struct Part {
    double since_s[2] = {-1, -1};  ///< when it was so far to exchange slices, then sums
    double through_s = 0;          ///< when the last of its messages so far was
    double done_s = -1;
    double unhidden_s = 0;
    int pending = 0;  ///< messages to and from it, of the phase that it is in
  };
  struct StageSums {
    std::size_t first = 0;  ///< its parts: by group, then replica
    int replicas = 0;
    std::vector<const Route*> routes;  ///< from replica a to replica b: a R + b; found when needed
  };

  std::size_t at(int stage, int replica, std::int64_t group) const {
    const StageSums& sums = stages_[static_cast<std::size_t>(stage)];
    return sums.first + static_cast<std::size_t>((group - first_group_) * sums.replicas + replica);
  }
  int stage_of(std::size_t part) const;
  const Route& route(int stage, int from, int to);
  void enter(int stage, int replica, std::size_t part, int phase, double now_s);
  void depart(int stage, std::size_t sum, int from, int to, int phase, double now_s);
  void complete(int stage, std::size_t sum, int from, int to, int phase, double now_s);
  void count_down(int stage, std::size_t sum, int replica, int phase, double now_s);

  const plan::Plan& plan_;
  const Workload& work_;
  Transfers& transfers_;
  std::int64_t first_group_;
  std::vector<StageSums> stages_;
  std::vector<Part> parts_;
  std::vector<int> finished_;
};

}  // namespace dynpipe::planner
