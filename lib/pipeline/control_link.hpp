#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <vector>

#include "comm/channel.hpp"
#include "plan/plan.hpp"
#include "schedule/schedule.hpp"

namespace dynpipe::pipeline {

/// How rank 0 ends a segment of training early without stopping anybody: it announces a group
/// before which all ranks end, far enough ahead that none has come to it.
///
/// A rank may be some groups ahead of another, `schedule::lead` at most. When rank 0 comes to group
/// c, it sends everybody the word on group c + lead, which no rank has come to: whether that is the
/// last. A rank that comes to a group waits until it has the word on it, which as a rule is long
/// there.
class ControlLink {
 public:
  /// Stands for "no end but that of the segment".
  static constexpr std::int64_t k_never = std::numeric_limits<std::int64_t>::max();

  ControlLink(const plan::Plan& plan, comm::Channel& channel);
  ControlLink(const ControlLink&) = delete;
  ControlLink& operator=(const ControlLink&) = delete;

  void begin(schedule::Segment segment);
  /// On rank 0: the segment shall end as soon as it can.
  void ask_to_stop() { stop_asked_ = true; }
  /// To be called before the first instruction of a group: whether it belongs to the segment.
  /// Blocks until that is known.
  bool admit(std::int64_t group);
  /// The segment's end, as far as it is known.
  std::int64_t end() const;
  /// Until this rank's last words have left.
  void finish();

 private:
  /// A word on its way to everybody.
  struct Departure {
    std::int64_t stop_before = k_never;
    std::vector<comm::Ticket> tickets;
  };
  void send_word(std::int64_t group);
  void await_word(std::int64_t group);
  /// One that is not on its way (any more).
  Departure& free_departure();
  bool has_left(Departure& departure);

  comm::Channel& channel_;
  int ranks_;
  std::int64_t lead_;
  schedule::Segment segment_;
  std::int64_t stop_before_ = k_never;
  std::int64_t known_ = 0;  ///< the last group on which there is a word
  bool stop_asked_ = false;
  // On rank 0:
  std::deque<Departure> departures_;  ///< as many as were ever on their way at once
  // On the others:
  std::int64_t word_ = k_never;  ///< where the next one arrives
  comm::Ticket arrival_ = 0;
};

}  // namespace dynpipe::pipeline
