#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "comm/channel.hpp"
#include "pipeline/buffer_pool.hpp"
#include "plan/plan.hpp"
#include "schedule/schedule.hpp"

namespace dynpipe::pipeline {

/// An update group as rank 0 learns of it.
struct GroupMetrics {
  std::int64_t group = 0;
  double loss_sum = 0;  ///< over the group's samples
  double correct = 0;   ///< samples whose largest logit is the label
};

/// Rank 0's end of the loss messages that the last stage's replicas send, one a group.
/// A loss that is not finite ends the run, once it has been handed on: RunError naming update (from
/// 1), stage and rank.
class MetricsLink {
 public:
  using Sink = std::function<void(const GroupMetrics&)>;

  MetricsLink(const plan::Plan& plan, comm::Channel& channel, device::Device& device, Sink sink);
  /// Its memory.
  static std::size_t bytes(const plan::Plan& plan);

  ~MetricsLink();
  MetricsLink(const MetricsLink&) = delete;
  MetricsLink& operator=(const MetricsLink&) = delete;

  void begin(schedule::Segment segment);
  /// Hand on the groups that have arrived, in order; never blocks.
  void poll();
  /// The segment ends before this group, which nobody has computed.
  void shorten(std::int64_t end_group);
  /// Block until the segment's last group has been handed on.
  void finish();

 private:
  /// Groups received ahead: more than any pipeline has between its first and its last stage would
  /// only cost memory, fewer only delays the news.
  static constexpr std::size_t k_window = 8;
  static constexpr std::size_t k_message_bytes = 2 * sizeof(double);

  struct Arrival {
    device::Buffer buffer;  ///< k_message_bytes: float64 [2], loss sum and correct
    comm::Ticket ticket = 0;
  };

  void post(std::int64_t group);
  bool arrived(std::int64_t group);
  void hand_on(std::int64_t group);
  std::vector<Arrival>& arrivals(std::int64_t group);

  const plan::Plan& plan_;
  comm::Channel& channel_;
  Sink sink_;
  std::vector<std::vector<Arrival>> window_;  ///< [group mod k_window][replica]
  schedule::Segment segment_;
  std::int64_t next_ = 0, posted_ = 0;
};

}  // namespace dynpipe::pipeline
