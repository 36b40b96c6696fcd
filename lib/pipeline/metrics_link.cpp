#include "pipeline/metrics_link.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/errors.hpp"

namespace dynpipe::pipeline {

MetricsLink::MetricsLink(const plan::Plan& plan, comm::Channel& channel, device::Device& device,
                         Sink sink)
    : plan_(plan), channel_(channel), sink_(std::move(sink)), window_(k_window) {
  for (auto& group : window_) {
    group.resize(plan.stages.back().ranks.size());
    for (Arrival& arrival : group) arrival.buffer = device.allocate(k_message_bytes);
  }
  channel_.add_helper(this, [this] { poll(); });
}

std::size_t MetricsLink::bytes(const plan::Plan& plan) {
  return k_window * plan.stages.back().ranks.size() * k_message_bytes;
}

MetricsLink::~MetricsLink() {
  channel_.remove_helper(this);
}

std::vector<MetricsLink::Arrival>& MetricsLink::arrivals(std::int64_t group) {
  return window_[static_cast<std::size_t>(group) % k_window];
}

void MetricsLink::begin(schedule::Segment segment) {
  segment_ = segment;
  next_ = posted_ = segment.first_group;
  poll();
}

void MetricsLink::post(std::int64_t group) {
  const auto& ranks = plan_.stages.back().ranks;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    Arrival& arrival = arrivals(group)[r];
    arrival.ticket = channel_.receive({comm::Payload::metrics, group, ranks[r], channel_.rank()},
                                      {arrival.buffer.data(), arrival.buffer.bytes()}, {});
  }
}

bool MetricsLink::arrived(std::int64_t group) {
  for (const Arrival& arrival : arrivals(group)) {
    if (!channel_.test(arrival.ticket)) return false;
  }
  return true;
}

void MetricsLink::hand_on(std::int64_t group) {
  GroupMetrics metrics{group, 0, 0};
  const auto& ranks = plan_.stages.back().ranks;
  std::string problem;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Arrival& arrival = arrivals(group)[r];
    channel_.retire(arrival.ticket);
    const auto* totals = reinterpret_cast<const double*>(arrival.buffer.data());
    if (problem.empty() && !std::isfinite(totals[0])) {
      problem = fmt::format(
          "update {}: the loss is {} on stage {} (rank {}); a lower learning rate may help",
          group + 1, std::isnan(totals[0]) ? "not a number" : "infinite", plan_.size() - 1,
          ranks[r]);
    }
    metrics.loss_sum += totals[0];
    metrics.correct += totals[1];
  }
  sink_(metrics);
  if (!problem.empty()) throw base::RunError(problem);
}

void MetricsLink::poll() {
  for (;;) {
    while (posted_ < segment_.end_group && posted_ < next_ + static_cast<std::int64_t>(k_window)) {
      post(posted_++);
    }
    if (next_ == posted_ || !arrived(next_)) return;
    hand_on(next_++);
  }
}

void MetricsLink::shorten(std::int64_t end_group) {
  segment_.end_group = end_group;
  while (posted_ > end_group) {
    for (const Arrival& arrival : arrivals(--posted_)) channel_.cancel(arrival.ticket);
  }
}

void MetricsLink::finish() {
  channel_.wait_until(
      [&] {
        poll();
        return next_ == segment_.end_group;
      },
      [&] { return fmt::format("the loss of update {} from the last stage", next_); });
}

}  // namespace dynpipe::pipeline
