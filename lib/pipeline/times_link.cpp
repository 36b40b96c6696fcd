#include "pipeline/times_link.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace dynpipe::pipeline {
namespace {

static_assert(std::is_trivially_copyable_v<StageTimes> && std::is_trivially_copyable_v<TimedStep>,
              "they travel as bytes");

StageTimes difference(const StageTimes& a, const StageTimes& b) {
  return {a.forward - b.forward,
          a.backward - b.backward,
          a.update - b.update,
          a.wait_activation - b.wait_activation,
          a.wait_gradient - b.wait_gradient,
          a.wait_reduction - b.wait_reduction,
          a.wait_send - b.wait_send,
          a.total - b.total,
          a.arrivals - b.arrivals,
          a.in_time - b.in_time};
}

}  // namespace

TimesLink::TimesLink(const plan::Plan& plan, comm::Channel& channel, std::int64_t every,
                     std::size_t steps, Sink sink)
    : channel_(channel), every_(every), sink_(std::move(sink)) {
  const std::size_t bytes = sizeof(Head) + steps * sizeof(TimedStep);
  if (channel.rank() != 0) {
    for (Departure& departure : departures_) departure.message.resize(bytes);
    return;
  }
  peers_.resize(static_cast<std::size_t>(plan.ranks()) - 1);
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    peers_[i].rank = static_cast<int>(i) + 1;
    peers_[i].message.resize(bytes);
  }
  channel_.add_helper(this, [this] { poll(); });
}

TimesLink::~TimesLink() {
  channel_.remove_helper(this);
}

void TimesLink::begin(schedule::Segment segment) {
  segment_ = segment;
  for (Peer& peer : peers_) await_report_from(peer, segment.first_group);
}

void TimesLink::await_report_from(Peer& peer, std::int64_t first_group) {
  const std::int64_t next = (first_group + every_) / every_ * every_ - 1;
  peer.group = std::min(next, segment_.end_group);
  if (peer.group == segment_.end_group) return;
  peer.ticket = channel_.receive(
      {comm::Payload::stage_times, peer.group, peer.rank, channel_.rank()}, peer.message, {});
}

void TimesLink::report(std::int64_t group, const StageTimes& so_far,
                       std::span<const TimedStep> steps, std::int64_t dropped) {
  if (!reports(group)) return;
  const StageTimes times = difference(so_far, reported_);
  reported_ = so_far;
  if (channel_.rank() == 0) {
    sink_({0, group, times, steps, dropped});
    return;
  }
  Departure& departure = departures_.at(next_departure_);
  next_departure_ = (next_departure_ + 1) % departures_.size();
  settle(departure);
  const Head head{times, static_cast<std::int64_t>(steps.size()), dropped};
  std::memcpy(departure.message.data(), &head, sizeof head);
  if (!steps.empty()) {
    std::memcpy(departure.message.data() + sizeof head, steps.data(), steps.size_bytes());
  }
  departure.ticket =
      channel_.send({comm::Payload::stage_times, group, channel_.rank(), 0}, departure.message, {});
}

void TimesLink::settle(Departure& departure) {
  if (departure.ticket) channel_.wait(*departure.ticket);
  departure.ticket.reset();
}

void TimesLink::look_at(Peer& peer) {
  if (peer.group == segment_.end_group || !channel_.test(peer.ticket)) return;
  channel_.retire(peer.ticket);
  Head head;
  std::memcpy(&head, peer.message.data(), sizeof head);
  const auto* const steps = reinterpret_cast<const TimedStep*>(peer.message.data() + sizeof head);
  sink_({peer.rank,
         peer.group,
         head.times,
         {steps, static_cast<std::size_t>(head.steps)},
         head.dropped});
  await_report_from(peer, peer.group + 1);
}

void TimesLink::poll() {
  if (peers_.empty()) return;
  look_at(peers_[next_peer_]);
  next_peer_ = (next_peer_ + 1) % peers_.size();
}

void TimesLink::shorten(std::int64_t end_group) {
  for (Peer& peer : peers_) {
    if (peer.group < end_group) continue;
    if (peer.group < segment_.end_group) channel_.cancel(peer.ticket);
    peer.group = end_group;
  }
  segment_.end_group = end_group;
}

void TimesLink::finish() {
  const auto awaited = [&] {
    return std::find_if(peers_.begin(), peers_.end(),
                        [&](const Peer& peer) { return peer.group != segment_.end_group; });
  };
  channel_.wait_until(
      [&] {
        for (Peer& peer : peers_) look_at(peer);
        return awaited() == peers_.end();
      },
      [&] { return channel_.name(awaited()->ticket).to_string(); });
  for (Departure& departure : departures_) settle(departure);
}

}  // namespace dynpipe::pipeline
