#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "plan/plan.hpp"
#include "planner/cluster.hpp"
#include "schedule/schedule.hpp"

namespace dynpipe::planner {

/// What a microbatch costs one rank of a stage, on its own device, undisturbed.
struct MicrobatchWork {
  double forward_s = 0, backward_input_s = 0, backward_weight_s = 0;
  /// Of the activation that leaves the stage (0 on the last); the gradient that comes back is as
  /// large.
  std::int64_t output_bytes = 0;
};

/// What training costs one rank. Of the M microbatches of a group the first
/// `Workload::larger` have ceil(batch / M) samples, the others floor(batch / M).
struct RankWork {
  MicrobatchWork large, small;
  double update_s = 0;              ///< of all its parameters, once a group
  std::int64_t gradient_bytes = 0;  ///< of its parameters: what replicas sum
};

/// What a plan's streams cost, by rank.
struct Workload {
  std::vector<RankWork> ranks;
  int larger = 0;
};

/// A step or a wait of a rank on the simulated clock; of a `receive`, the message. Sends are not
/// among them.
struct SimulatedStep {
  schedule::Instruction instruction;
  double ready_s = 0;  ///< when the rank came to it
  double start_s = 0;  ///< when what it waits for was there; of a message, its departure
  double end_s = 0;    ///< of a message, its arrival
};

struct SimulatedRank {
  double busy_s = 0;  ///< in forwards, backwards and updates
  double wait_activation_s = 0, wait_gradient_s = 0, wait_reduction_s = 0;
  double end_s = 0;
  std::vector<SimulatedStep> steps;  ///< only where they were asked for
};

/// What a link has carried by the end.
struct SimulatedLink {
  double forward_bytes = 0, backward_bytes = 0;  ///< from its `from` to its `to`, and back
};

struct SimulatedRun {
  std::vector<SimulatedRank> ranks;
  std::vector<SimulatedLink> links;  ///< of the cluster
  /// When the last rank had made each update of the segment, by group.
  std::vector<double> updates_s;
  int draining = 0;  ///< the last updates, made when the first stage had no forwards left to run
  double end_s = 0;

  /// Seconds an update in the steady part: the mean over the later half of the segment, without the
  /// updates that are made while the pipeline drains (where others are left).
  double period_s() const;
};

struct SimulatorOptions {
  std::uint64_t seed = 1;  ///< of jitter
  bool keep_steps = false;
  /// What a rank's forward, backward, part of one or update takes, instead of the workload's times;
  /// empty: those.
  std::function<double(int rank, const schedule::Instruction& step)> seconds = {};
};

/// Runs the streams of all ranks on the described cluster, step by step on a simulated clock: the
/// instructions that the worker executes. A message departs when both its send and its receive are
/// posted, takes the latency and then its bytes at its max-min share of every link on its route.
/// The share of it that does not overlap, 1 - overlap of what it takes undisturbed, the receiving
/// rank pays when it uses the message, less what it then has waited for the message under way: a
/// rank that waits has time to move bytes. What is paid counts as waiting, and so does the time
/// until a rank looks (Cluster::waiting).
///
/// The sum over R replicas of a stage is a reduce-scatter and an all-gather: two messages of
/// gradient_bytes / R from each rank to each other, the second once all of the rank's first are
/// through. Interference stretches a rank's steps, and a link's latency and bytes, while it lasts.
/// Jitter is log-normal, drawn by rank and instruction: the same in every plan and order of events.
///
/// The streams have passed the checker; throws std::logic_error where they block, or where the plan
/// has more ranks than the cluster.
SimulatedRun simulate(const plan::Plan& plan, std::span<const schedule::Stream> streams,
                      const Workload& work, const Cluster& cluster,
                      const SimulatorOptions& options = {});

}  // namespace dynpipe::planner
