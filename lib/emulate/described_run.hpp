#pragma once

#include <cstdint>

#include "plan/plan.hpp"
#include "planner/cluster.hpp"
#include "planner/simulator.hpp"
#include "schedule/schedule.hpp"

namespace dynpipe::emulate {

/// When one rank's steps begin and end on a described machine, segment by segment. Streams are
/// known beforehand, so every rank works out the whole run by itself, and all get the same times
/// however fast they really are. A segment begins when the slowest rank is through with the one
/// before.
class DescribedRun {
 public:
  /// Throws InputError where the cluster has fewer ranks than the plan. What is referred to
  /// outlives this.
  DescribedRun(const plan::Plan& plan, int rank, const planner::Workload& work,
               const planner::Cluster& cluster, std::uint64_t seed);

  /// Works out the next segment.
  void begin_training(schedule::Segment segment);
  void begin_evaluation(std::int64_t count);
  /// The segment of training under way ends before this group, which no rank has come to: its
  /// later steps are left out, the times of those before them stay as they are.
  void shorten(std::int64_t end_group);

  /// The rank's steps of the segment that take time or wait (no messages), in the order of its
  /// stream; times since the run began.
  const std::vector<planner::SimulatedStep>& steps() const { return steps_; }
  /// When the segment began, and when its slowest rank is through.
  double began_s() const { return began_s_; }
  double end_s() const { return end_s_; }
  /// When the last rank makes the update of a group of the segment.
  double update_s(std::int64_t group) const;

 private:
  void work_out();

  const plan::Plan& plan_;
  int rank_;
  const planner::Workload& work_;
  const planner::Cluster& cluster_;
  std::uint64_t seed_;
  std::vector<schedule::Stream> streams_;  ///< of the segment, by rank
  double began_s_ = 0, end_s_ = 0;
  std::int64_t first_group_ = 0;
  std::vector<double> updates_s_;
  std::vector<planner::SimulatedStep> steps_;
};

}  // namespace dynpipe::emulate
