#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "comm/channel.hpp"
#include "pipeline/stage_times.hpp"
#include "pipeline/step_recorder.hpp"
#include "plan/plan.hpp"
#include "schedule/schedule.hpp"

namespace dynpipe::pipeline {

/// What a rank tells of itself while it trains.
struct TimesReport {
  int rank = 0;
  std::int64_t group = 0;  ///< that the rank has just updated
  StageTimes times;        ///< since its last report; `total`: of that time too
  /// Single steps since then, by that rank's clock, where they are recorded; valid while it is
  /// told.
  std::span<const TimedStep> steps = {};
  std::int64_t steps_dropped = 0;  ///< for which there was no room
};

/// Both ends of the small messages in which each rank tells rank 0, every so many groups, where its
/// time went. A rank's reports arrive in the order of groups; those of different ranks in any.
class TimesLink {
 public:
  using Sink = std::function<void(const TimesReport&)>;

  /// `every`: groups from one report to the next, at least 1, the same on all ranks; `steps`: how
  /// many of them a report has room for, likewise. `sink` is told on rank 0, of its own reports
  /// too.
  TimesLink(const plan::Plan& plan, comm::Channel& channel, std::int64_t every, std::size_t steps,
            Sink sink);
  ~TimesLink();
  TimesLink(const TimesLink&) = delete;
  TimesLink& operator=(const TimesLink&) = delete;

  void begin(schedule::Segment segment);
  /// This rank has updated `group`, and has used `so_far` since it began to train. To be called
  /// after every update. `steps` are those since the last report. Waits only for a message that
  /// left two reports ago.
  void report(std::int64_t group, const StageTimes& so_far, std::span<const TimedStep> steps,
              std::int64_t dropped);
  /// Whether a report follows this group's update.
  bool reports(std::int64_t group) const { return (group + 1) % every_ == 0; }
  /// Look whether a report has arrived: one message a call, however many ranks there are.
  void poll();
  /// The segment ends before this group, which nobody has updated.
  void shorten(std::int64_t end_group);
  /// Block until the segment's last reports have been handed on, or have left.
  void finish();

 private:
  /// What a message begins with; steps follow, in all as many as there is room for.
  struct Head {
    StageTimes times;
    std::int64_t steps = 0, dropped = 0;
  };

  /// A rank that rank 0 hears of.
  struct Peer {
    int rank = 0;
    std::vector<std::byte> message;  ///< where its next report arrives
    comm::Ticket ticket = 0;
    std::int64_t group = 0;  ///< of the report that is awaited; none at the segment's end
  };

  /// A report on its way to rank 0.
  struct Departure {
    std::vector<std::byte> message;
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
