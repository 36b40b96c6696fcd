#include "planner/routes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>
#include <stdexcept>

namespace dynpipe::planner {
namespace {

constexpr double k_far = std::numeric_limits<double>::infinity();

/// Sums of the same latencies in another order are equal.
bool about_equal(double a, double b) {
  return std::abs(a - b) <= 1e-9 * std::max(a, b);
}

}  // namespace

Routes::Routes(const Cluster& cluster)
    : cluster_(cluster),
      steps_(cluster.ranks.size() + cluster.switches.size()),
      distances_(steps_.size(), {k_far, 0}) {
  for (std::size_t l = 0; l < cluster.links.size(); ++l) {
    const ClusterLink& link = cluster.links[l];
    steps_[static_cast<std::size_t>(link.from)].push_back({static_cast<int>(l), link.to});
    steps_[static_cast<std::size_t>(link.to)].push_back({static_cast<int>(l), link.from});
  }
}

const Route& Routes::between(int from, int to) {
  const std::uint64_t pair = static_cast<std::uint64_t>(from) << 32U | static_cast<unsigned>(to);
  const Route*& known = known_[pair];
  if (known == nullptr) {
    routes_.push_back(find(from, to));
    known = &routes_.back();
  }
  return *known;
}

Route Routes::find(int from, int to) {
  Route route;
  route.bytes_per_s = k_far;
  // Ends with one link are on nobody else's way, and there may be thousands.
  int end = from;
  if (leaf(end)) {
    const Step& only = steps_[static_cast<std::size_t>(end)].front();
    append(route, end, only);
    end = only.to;
  }
  const int last = leaf(to) && end != to ? steps_[static_cast<std::size_t>(to)].front().to : to;
  if (end != last) {
    measure(end, last);
    if (distances_[static_cast<std::size_t>(end)].latency_s == k_far) {
      throw std::logic_error("two ranks cannot reach each other");
    }
    while (end != last) {
      const Step step = next_step(end, to);
      append(route, end, step);
      end = step.to;
    }
  }
  if (end != to) {
    const Step& back = steps_[static_cast<std::size_t>(to)].front();
    append(route, end, {back.link, to});
  }
  return route;
}

void Routes::measure(int from, int to) {
  for (int end : measured_) distances_[static_cast<std::size_t>(end)] = {k_far, 0};
  measured_.assign(1, to);
  distances_[static_cast<std::size_t>(to)] = {0, 0};
  using Entry = std::pair<Distance, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  open.emplace(Distance{0, 0}, to);
  while (!open.empty()) {
    const auto [distance, end] = open.top();
    open.pop();
    if (distance > distances_[static_cast<std::size_t>(end)]) continue;
    if (end == from) return;
    for (const Step& step : steps_[static_cast<std::size_t>(end)]) {
      if (step.to != from && leaf(step.to)) continue;
      const double latency_s = cluster_.links[static_cast<std::size_t>(step.link)].latency_s;
      const Distance further{distance.latency_s + latency_s, distance.links + 1};
      Distance& known = distances_[static_cast<std::size_t>(step.to)];
      if (known.latency_s == k_far) measured_.push_back(step.to);
      if (further >= known) continue;
      known = further;
      open.emplace(further, step.to);
    }
  }
}

Routes::Step Routes::next_step(int end, int destination) const {
  const Distance here = distances_[static_cast<std::size_t>(end)];
  std::vector<Step> equal;
  for (const Step& step : steps_[static_cast<std::size_t>(end)]) {
    const Distance there = distances_[static_cast<std::size_t>(step.to)];
    const double latency_s = cluster_.links[static_cast<std::size_t>(step.link)].latency_s;
    if (there.latency_s < k_far && there.links + 1 == here.links &&
        about_equal(there.latency_s + latency_s, here.latency_s)) {
      equal.push_back(step);
    }
  }
  return equal[static_cast<std::size_t>(destination) % equal.size()];
}

void Routes::append(Route& route, int end, const Step& step) const {
  const ClusterLink& link = cluster_.links[static_cast<std::size_t>(step.link)];
  const bool back = link.full_duplex && link.from != end;
  route.channels.push_back(2 * step.link + (back ? 1 : 0));
  route.latency_s += link.latency_s;
  route.bytes_per_s = std::min(route.bytes_per_s, link.bytes_per_s);
  route.overlap = std::min(route.overlap, link.overlap);
}

}  // namespace dynpipe::planner
