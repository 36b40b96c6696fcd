#include "planner/replica_sums.hpp"

#include <algorithm>

namespace dynpipe::planner {

ReplicaSums::ReplicaSums(const plan::Plan& plan, const Workload& work, Transfers& transfers,
                         std::int64_t first_group, std::int64_t end_group)
    : plan_(plan), work_(work), transfers_(transfers), first_group_(first_group) {
  std::size_t parts = 0;
  for (const plan::Stage& stage : plan.stages) {
    const auto replicas = static_cast<std::size_t>(stage.replicas());
    stages_.push_back({parts, stage.replicas(), {}});
    if (replicas < 2) continue;
    stages_.back().routes.resize(replicas * replicas);
    parts += replicas * static_cast<std::size_t>(end_group - first_group);
  }
  parts_.resize(parts);
}

int ReplicaSums::stage_of(std::size_t part) const {
  const auto after = std::ranges::upper_bound(stages_, part, {}, &StageSums::first);
  return static_cast<int>(after - stages_.begin()) - 1;
}

const Route& ReplicaSums::route(int stage, int from, int to) {
  StageSums& sums = stages_[static_cast<std::size_t>(stage)];
  const Route*& known = sums.routes[static_cast<std::size_t>(from * sums.replicas + to)];
  if (known == nullptr) {
    const auto& ranks = plan_.stages[static_cast<std::size_t>(stage)].ranks;
    known = &transfers_.route(ranks[static_cast<std::size_t>(from)],
                              ranks[static_cast<std::size_t>(to)]);
  }
  return *known;
}

void ReplicaSums::start(int stage, int replica, std::int64_t group, double now_s) {
  enter(stage, replica, at(stage, replica, group), 0, now_s);
}

void ReplicaSums::enter(int stage, int replica, std::size_t part, int phase, double now_s) {
  const int replicas = stages_[static_cast<std::size_t>(stage)].replicas;
  const std::size_t sum = part - static_cast<std::size_t>(replica);
  parts_[part].since_s[phase] = now_s;
  parts_[part].pending = 2 * (replicas - 1);
  for (int other = 0; other < replicas; ++other) {
    const double since_s = parts_[sum + static_cast<std::size_t>(other)].since_s[phase];
    if (other == replica || since_s < 0) continue;
    depart(stage, sum, replica, other, phase, std::max(now_s, since_s));
    depart(stage, sum, other, replica, phase, std::max(now_s, since_s));
  }
}

void ReplicaSums::depart(int stage, std::size_t sum, int from, int to, int phase, double now_s) {
  const plan::Stage& of = plan_.stages[static_cast<std::size_t>(stage)];
  const int rank = of.ranks[static_cast<std::size_t>(from)];
  const double bytes =
      static_cast<double>(work_.ranks[static_cast<std::size_t>(rank)].gradient_bytes) /
      of.replicas();
  const Route& way = route(stage, from, to);
  parts_[sum + static_cast<std::size_t>(to)].unhidden_s +=
      (1 - way.overlap) * Transfers::undisturbed_s(way, bytes);
  const std::uint64_t sender = sum + static_cast<std::size_t>(from);
  const std::uint64_t tag = k_own | sender << (k_replica_bits + 1) |
                            static_cast<std::uint64_t>(to) << 1U |
                            static_cast<std::uint64_t>(phase);
  const double arrival_s = transfers_.depart(way, bytes, now_s, tag);
  if (arrival_s != Transfers::k_under_way) complete(stage, sum, from, to, phase, arrival_s);
}

void ReplicaSums::arrived(const Transfers::Arrival& arrival) {
  const int phase = static_cast<int>(arrival.tag & 1U);
  const int to = static_cast<int>(arrival.tag >> 1U & ((1U << k_replica_bits) - 1));
  const std::size_t sender = (arrival.tag & ~k_own) >> (k_replica_bits + 1);
  const int stage = stage_of(sender);
  const StageSums& sums = stages_[static_cast<std::size_t>(stage)];
  const std::size_t from = (sender - sums.first) % static_cast<std::size_t>(sums.replicas);
  complete(stage, sender - from, static_cast<int>(from), to, phase, arrival.time_s);
}

void ReplicaSums::complete(int stage, std::size_t sum, int from, int to, int phase, double now_s) {
  count_down(stage, sum, from, phase, now_s);
  count_down(stage, sum, to, phase, now_s);
}

void ReplicaSums::count_down(int stage, std::size_t sum, int replica, int phase, double now_s) {
  const std::size_t at = sum + static_cast<std::size_t>(replica);
  Part& part = parts_[at];
  part.through_s = std::max(part.through_s, now_s);
  if (--part.pending > 0) return;
  if (phase == 0) return enter(stage, replica, at, 1, part.through_s);
  part.done_s = part.through_s;
  finished_.push_back(
      plan_.stages[static_cast<std::size_t>(stage)].ranks[static_cast<std::size_t>(replica)]);
}

}  // namespace dynpipe::planner
