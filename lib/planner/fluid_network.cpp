#include "planner/fluid_network.hpp"

#include <algorithm>
#include <limits>

namespace dynpipe::planner {
namespace {

/// Rates that differ by less are the same.
constexpr double k_rounding = 1e-12;
/// A channel this nearly full is full, a flow that has so little less has as much.
constexpr double k_tolerance = 1e-9;
constexpr double k_no_level = std::numeric_limits<double>::infinity();

}  // namespace

FluidNetwork::FluidNetwork(std::vector<double> capacities) : channels_(capacities.size()) {
  for (std::size_t c = 0; c < capacities.size(); ++c) channels_[c].capacity = capacities[c];
}

void FluidNetwork::change(int c) {
  if (channel(c).changed) return;
  channel(c).changed = true;
  changed_.push_back(c);
}

void FluidNetwork::add(int f, std::span<const int> channels, double bytes, double now_s) {
  if (static_cast<std::size_t>(f) >= flows_.size()) flows_.resize(static_cast<std::size_t>(f) + 1);
  Flow& added = flow(f);
  added.channels = channels;
  added.places.resize(channels.size());
  added.bytes = added.left = bytes;
  added.since_s = now_s;
  added.rate = 0;
  added.bottleneck = -1;
  for (std::size_t hop = 0; hop < channels.size(); ++hop) {
    auto& list = channel(channels[hop]).flows;
    added.places[hop] = static_cast<std::uint32_t>(list.size());
    list.push_back({f, static_cast<int>(hop)});
    change(channels[hop]);
  }
}

void FluidNetwork::remove(int f) {
  Flow& removed = flow(f);
  for (std::size_t hop = 0; hop < removed.channels.size(); ++hop) {
    Channel& left = channel(removed.channels[hop]);
    left.carried += removed.bytes;
    const std::uint32_t place = removed.places[hop];
    const Entry moved = left.flows.back();
    left.flows[place] = moved;
    flow(moved.flow).places[static_cast<std::size_t>(moved.hop)] = place;
    left.flows.pop_back();
    change(removed.channels[hop]);
  }
}

void FluidNetwork::set_capacity(int c, double bytes_per_s) {
  channel(c).capacity = bytes_per_s;
  change(c);
}

std::span<const int> FluidNetwork::share_out(double now_s) {
  rerated_.clear();
  if (changed_.empty()) return rerated_;
  ++mark_;
  region_flows_.clear();
  region_channels_.clear();
  for (int c : changed_) {
    channel(c).changed = false;
    for (const Entry& entry : channel(c).flows) include(entry.flow);
  }
  changed_.clear();
  if (region_flows_.empty()) return rerated_;
  do {
    fill();
  } while (take_in_more());
  apply(now_s);
  return rerated_;
}

void FluidNetwork::include(int f) {
  Flow& included = flow(f);
  if (inside(included)) return;
  included.mark = mark_;
  included.next_rate = -1;
  region_flows_.push_back(f);
  for (int c : included.channels) {
    Channel& touched = channel(c);
    if (touched.mark != mark_) {
      touched.mark = mark_;
      touched.inside = 0;
      region_channels_.push_back(c);
    }
    ++touched.inside;
  }
}

/// Progressive filling of what the flows outside leave: the channel that has least for each of its
/// flows fixes their rate, then the next.
void FluidNetwork::fill() {
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.share > b.share || (a.share == b.share && a.channel > b.channel);
  };
  candidates_.clear();
  for (int f : region_flows_) flow(f).next_rate = -1;
  for (int c : region_channels_) {
    Channel& touched = channel(c);
    touched.left = touched.capacity;
    touched.open = touched.inside;
    touched.level = k_no_level;
    if (touched.inside < static_cast<int>(touched.flows.size())) {
      for (const Entry& entry : touched.flows) {
        if (!inside(flow(entry.flow))) touched.left -= flow(entry.flow).rate;
      }
    }
    candidates_.push_back({touched.left / touched.open, c});
  }
  std::ranges::make_heap(candidates_, later);
  double share = 0;
  while (!candidates_.empty()) {
    std::ranges::pop_heap(candidates_, later);
    const Candidate least = candidates_.back();
    candidates_.pop_back();
    Channel& next = channel(least.channel);
    if (next.open == 0) continue;
    const double now = next.left / next.open;
    if (now > least.share * (1 + k_rounding)) {  // others have been fixed meanwhile, at less
      candidates_.push_back({now, least.channel});
      std::ranges::push_heap(candidates_, later);
      continue;
    }
    // What is equal but for rounding stays equal, so that equal flows end together.
    if (now > share * (1 + k_rounding)) share = now;
    fix(least.channel, share);
  }
}

void FluidNetwork::fix(int c, double share) {
  Channel& full = channel(c);
  full.level = share;
  for (const Entry& entry : full.flows) {
    Flow& fixed = flow(entry.flow);
    if (!inside(fixed) || fixed.next_rate >= 0) continue;
    fixed.next_rate = share;
    fixed.bottleneck = c;
    for (int other : fixed.channels) {
      channel(other).left -= share;
      --channel(other).open;
    }
  }
}

/// Takes in flows that have lost their bottleneck, or stand in the way of one that has less.
/// Returns whether there were any.
bool FluidNetwork::take_in_more() {
  const std::size_t before = region_flows_.size();
  const std::size_t channels = region_channels_.size();
  for (std::size_t i = 0; i < channels; ++i) {
    const int c = region_channels_[i];
    const Channel& touched = channel(c);
    if (touched.inside == static_cast<int>(touched.flows.size())) continue;
    double used = 0;
    double most = 0;
    for (const Entry& entry : touched.flows) {
      const Flow& f = flow(entry.flow);
      const double rate = f.next_rate >= 0 && inside(f) ? f.next_rate : f.rate;
      used += rate;
      most = std::max(most, rate);
    }
    const bool full = used >= touched.capacity * (1 - k_tolerance);
    const double level = touched.level;
    for (const Entry& entry : touched.flows) {
      const Flow& f = flow(entry.flow);
      if (inside(f)) continue;
      const bool lost = f.bottleneck == c && (!full || f.rate < most * (1 - k_tolerance));
      if (lost || f.rate > level * (1 + k_tolerance)) include(entry.flow);
    }
  }
  return region_flows_.size() > before;
}

void FluidNetwork::apply(double now_s) {
  for (int f : region_flows_) {
    Flow& changed = flow(f);
    const double before = changed.rate;
    const double now = changed.next_rate;
    if (before > 0 && std::max(before, now) <= std::min(before, now) * (1 + k_rounding)) continue;
    changed.left = std::max(0.0, changed.left - before * (now_s - changed.since_s));
    changed.since_s = now_s;
    changed.rate = now;
    rerated_.push_back(f);
  }
}

}  // namespace dynpipe::planner
