#include "pipeline/control_link.hpp"

#include <algorithm>
#include <span>

namespace dynpipe::pipeline {

ControlLink::ControlLink(const plan::Plan& plan, comm::Channel& channel)
    : channel_(channel), ranks_(plan.ranks()), lead_(schedule::lead(plan)) {}

std::int64_t ControlLink::end() const {
  return std::min(stop_before_, segment_.end_group);
}

void ControlLink::begin(schedule::Segment segment) {
  segment_ = segment;
  stop_before_ = k_never;
  stop_asked_ = false;
  known_ = segment.first_group + lead_ - 1;
  if (channel_.rank() != 0) await_word(known_ + 1);
}

bool ControlLink::admit(std::int64_t group) {
  if (channel_.rank() == 0) {
    while (known_ < group + lead_ && known_ + 1 < end()) send_word(known_ + 1);
    return group < end();
  }
  while (known_ < group && known_ + 1 < end()) {
    channel_.wait(arrival_);
    ++known_;
    stop_before_ = word_;
    await_word(known_ + 1);
  }
  return group < end();
}

void ControlLink::send_word(std::int64_t group) {
  if (stop_asked_ && stop_before_ == k_never) stop_before_ = group + 1;
  known_ = group;
  Departure& departure = free_departure();
  departure.stop_before = stop_before_;
  for (int rank = 1; rank < ranks_; ++rank) {
    departure.tickets.push_back(channel_.send({comm::Payload::control, group, 0, rank},
                                              std::as_bytes(std::span(&departure.stop_before, 1)),
                                              {}));
  }
}

void ControlLink::await_word(std::int64_t group) {
  if (group >= end()) return;
  arrival_ = channel_.receive({comm::Payload::control, group, 0, channel_.rank()},
                              std::as_writable_bytes(std::span(&word_, 1)), {});
}

bool ControlLink::has_left(Departure& departure) {
  std::erase_if(departure.tickets, [this](comm::Ticket ticket) {
    if (!channel_.test(ticket)) return false;
    channel_.retire(ticket);
    return true;
  });
  return departure.tickets.empty();
}

ControlLink::Departure& ControlLink::free_departure() {
  for (Departure& departure : departures_) {
    if (has_left(departure)) return departure;
  }
  // Waiting for one here could be waiting for a rank that waits for this one.
  Departure& fresh = departures_.emplace_back();
  fresh.tickets.reserve(static_cast<std::size_t>(ranks_));
  return fresh;
}

void ControlLink::finish() {
  for (Departure& departure : departures_) {
    channel_.wait_until([&] { return has_left(departure); },
                        [&] { return channel_.name(departure.tickets.front()).to_string(); });
  }
}

}  // namespace dynpipe::pipeline
