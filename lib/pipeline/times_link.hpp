#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "comm/channel.hpp"
#include "pipeline/stage_times.hpp"
#include "plan/plan.hpp"
#include "schedule/schedule.hpp"

namespace dynpipe::pipeline {

/// What a rank tells of itself while it trains.
struct TimesReport {
  int rank = 0;
  std::int64_t group = 0;  ///< that the rank has just updated
  StageTimes times;        ///< since its last report; `total`: of that time too
};

/// Both ends of the small messages in which each rank tells rank 0, every so many groups, where its
/// time went. A rank's reports arrive in the order of groups; those of different ranks in any.
class TimesLink {
 public:
  using Sink = std::function<void(const TimesReport&)>;

  /// `every`: groups from one report to the next, at least 1, the same on all ranks. `sink` is told
  /// on rank 0, of its own reports too.
  TimesLink(const plan::Plan& plan, comm::Channel& channel, std::int64_t every, Sink sink);
  ~TimesLink();
  TimesLink(const TimesLink&) = delete;
  TimesLink& operator=(const TimesLink&) = delete;

  void begin(schedule::Segment segment);
  /// This rank has updated `group`, and has used `so_far` since it began to train. To be called
  /// after every update. Waits only for a message that left two reports ago.
  void report(std::int64_t group, const StageTimes& so_far);
  /// Look whether a report has arrived: one message a call, however many ranks there are.
  void poll();
  /// The segment ends before this group, which nobody has updated.
  void shorten(std::int64_t end_group);
  /// Block until the segment's last reports have been handed on, or have left.
  void finish();

 private:
  /// A rank that rank 0 hears of.
  struct Peer {
    int rank = 0;
    StageTimes times;  ///< where its next report arrives
    comm::Ticket ticket = 0;
    std::int64_t group = 0;  ///< of the report that is awaited; none at the segment's end
  };

  /// A report on its way to rank 0.
  struct Departure {
    StageTimes times;
    std::optional<comm::Ticket> ticket;
  };

  void await_report_from(Peer& peer, std::int64_t first_group);
  void look_at(Peer& peer);
  /// Until its last message is gone.
  void settle(Departure& departure);

  comm::Channel& channel_;
  std::int64_t every_;
  Sink sink_;
  std::array<Departure, 2> departures_;
  std::size_t next_departure_ = 0;
  StageTimes reported_;  ///< what this rank has told of
  std::vector<Peer> peers_;
  std::size_t next_peer_ = 0;
  schedule::Segment segment_;
};

}  // namespace dynpipe::pipeline
