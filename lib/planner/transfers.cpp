#include "planner/transfers.hpp"

#include <algorithm>
#include <cmath>

namespace dynpipe::planner {
namespace {

std::vector<double> capacities(const Routes& routes) {
  std::vector<double> result;
  for (int c = 0; c < routes.channels(); ++c) result.push_back(routes.capacity(c));
  return result;
}

}  // namespace

Transfers::Transfers(const Cluster& cluster)
    : cluster_(cluster),
      routes_(cluster),
      network_(capacities(routes_)),
      links_(timelines(cluster.events, Interference::Of::link, cluster.links.size())) {
  plan_capacity_changes();
}

void Transfers::plan_capacity_changes() {
  for (std::size_t l = 0; l < links_.size(); ++l) {
    for (const Interference& event : links_[l].events()) {
      for (const int c : {2 * static_cast<int>(l), 2 * static_cast<int>(l) + 1}) {
        const double rate = routes_.capacity(c);
        changes_.push_back({event.end_s, c, rate});
        changes_.push_back({event.start_s, c, rate / event.slowdown});
      }
    }
  }
  // Where one event begins as another ends, the later one's rate stands.
  std::ranges::stable_sort(changes_, [](const CapacityChange& a, const CapacityChange& b) {
    return a.time_s < b.time_s;
  });
}

double Transfers::after_latency_s(const Route& route, double depart_s) const {
  // Link by link also where nothing disturbs: the same rounding whatever is to come.
  double now_s = depart_s;
  for (int c : route.channels) {
    const auto l = static_cast<std::size_t>(c / 2);
    now_s = links_[l].end_s(now_s, cluster_.links[l].latency_s);
  }
  return now_s;
}

double Transfers::depart(const Route& route, double bytes, double depart_s, std::uint64_t tag) {
  const double flows_s = after_latency_s(route, depart_s);
  if (bytes == 0 || std::isinf(route.bytes_per_s)) return flows_s;
  const int slot = free_slot();
  messages_[static_cast<std::size_t>(slot)] = {&route, bytes, tag, false};
  queue_.put(slot, flows_s, tag);
  return k_under_way;
}

int Transfers::free_slot() {
  if (free_.empty()) {
    messages_.emplace_back();
    return static_cast<int>(messages_.size()) - 1;
  }
  const int slot = free_.back();
  free_.pop_back();
  return slot;
}

bool Transfers::advance() {
  arrivals_.clear();
  if (queue_.empty()) return false;
  now_s_ = queue_.next_s();
  if (next_change_ < changes_.size()) now_s_ = std::min(now_s_, changes_[next_change_].time_s);
  for (; next_change_ < changes_.size() && changes_[next_change_].time_s == now_s_;
       ++next_change_) {
    network_.set_capacity(changes_[next_change_].channel, changes_[next_change_].bytes_per_s);
  }
  while (!queue_.empty() && queue_.next_s() == now_s_) {
    const int slot = queue_.pop();
    Message& message = messages_[static_cast<std::size_t>(slot)];
    if (message.flows) {
      network_.remove(slot);
      arrivals_.push_back({message.tag, now_s_});
      free_.push_back(slot);
    } else {
      message.flows = true;
      network_.add(slot, message.route->channels, message.bytes, now_s_);
    }
  }
  for (const int slot : network_.share_out(now_s_)) {
    // Rounding must not end a flow before now.
    queue_.put(slot, std::max(now_s_, network_.end_s(slot)),
               messages_[static_cast<std::size_t>(slot)].tag);
  }
  return true;
}

}  // namespace dynpipe::planner
