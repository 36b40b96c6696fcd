#include "planner/partition.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace dynpipe::planner {
namespace {

constexpr double k_slack = 1 + 1e-9;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

struct Cutter::Run {
  int stages, first, begin, replicas;
  const Shares* shares;
  double paid_before = 0;   ///< of the message that comes, by the receiver's core
  double bytes_before = 0;  ///< of it
  double link_before = 0;   ///< C
};

Cutter::Cutter(const Estimator& estimator, CutSettings settings)
    : estimator_(estimator),
      costs_(estimator.costs()),
      settings_(std::move(settings)),
      layers_(costs_.layers()),
      ranks_(costs_.ranks()) {
  const bool numbered = settings_.stages > 0 || !settings_.pins.empty();
  // Without replicas a stage's number is that of its rank.
  depth_ = !numbered || !settings_.replicas ? 1
           : settings_.stages > 0           ? settings_.stages + 1
                                            : std::min(layers_, ranks_) + 1;
  limited_ = estimator_.objective().memory_bytes < std::numeric_limits<double>::infinity() ||
             costs_.memory_bytes(0, ranks_) < std::numeric_limits<double>::infinity();
}

Cutter::State& Cutter::state(int stages, int layers, int ranks) {
  const int depth = depth_ == 1 ? 0 : stages;
  return states_[(at(depth) * at(layers_ + 1) + at(layers)) * at(ranks_ + 1) + at(ranks)];
}

bool Cutter::allowed(int stage, int first, int last) const {
  if (!settings_.may_begin.empty() && !settings_.may_begin[at(first)]) return false;
  if (settings_.pins.empty()) return true;
  for (int layer = first; layer <= last; ++layer) {
    const int pin = settings_.pins[at(layer)];
    if (pin >= 0 && pin != stage) return false;
  }
  return true;
}

bool Cutter::allowed(const Parts& parts) const {
  for (std::size_t s = 0; s < parts.size(); ++s) {
    if (!allowed(static_cast<int>(s), parts[s].first, parts[s].last)) return false;
  }
  return true;
}

int Cutter::first_last(int first, int ranks_used) const {
  const double room = period_ * k_slack * costs_.speed(ranks_used, ranks_);
  const auto soon_enough = [&](int last) {
    return needed_.empty() ? costs_.work_s(last + 1, layers_ - 1) <= room
                           : needed_[at(last + 1)] <= ranks_ - ranks_used;
  };
  int low = first, high = layers_ - 1;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (soon_enough(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

bool Cutter::count_needed() {
  needed_.assign(at(layers_ + 1), 0);
  const int most = settings_.replicas ? costs_.most_replicas() : 1;
  for (int first = layers_ - 1; first >= 0; --first) {
    int fewest = ranks_ + 1;
    int last = first - 1;  // that so many replicas reach
    for (int replicas = 1; replicas <= most && last + 1 < layers_; ++replicas) {
      const Shares& shares = costs_.shares(0, replicas);
      while (last + 1 < layers_ &&
             costs_.work_s(first, last + 1) * shares.busiest +
                     costs_.update_s(first, last + 1) * shares.slowest / costs_.microbatches() <=
                 period_ * k_slack) {
        ++last;
      }
      if (last >= first) fewest = std::min(fewest, replicas + needed_[at(last + 1)]);
    }
    needed_[at(first)] = fewest;
  }
  return needed_.front() <= ranks_;
}

/// By what is known before the stages around it are: the ranks behind it keep it at least as far
/// ahead.
bool Cutter::fits(int first, int last, int begin, int replicas, bool recompute) const {
  const Objective& objective = estimator_.objective();
  const int m = costs_.microbatches();
  const int behind = ranks_ - begin - replicas;
  const Shares& shares = costs_.shares(begin, replicas);
  int held = behind + 1;
  int tau = (behind + m - 1) / m;
  if (objective.synchronous()) {
    held = objective.schedule == plan::Schedule::gpipe ? m : std::min(held, m);
    tau = 0;
  }
  const double own = std::ceil(static_cast<double>(held) * shares.most / m - 1e-9);
  const double bytes =
      costs_.parameter_bytes(first, last) * (tau + 2) + costs_.state_bytes(first, last) +
      costs_.kept_bytes(first, last) * (recompute ? 1 : own) + costs_.buffer_bytes(first - 1) * own;
  return bytes <= std::min(objective.memory_bytes, costs_.memory_bytes(begin, replicas));
}

void Cutter::grow(const Run& run, const State& from) {
  const Objective& objective = estimator_.objective();
  const int m = costs_.microbatches();
  const Shares& shares = *run.shares;
  const int used = run.begin + run.replicas;
  const bool last_stage = used == ranks_;
  const double part = static_cast<double>(shares.most) / m;
  const int begin_last = last_stage ? layers_ - 1 : first_last(run.first, used);
  for (int last = begin_last; last < layers_; ++last) {
    const int left = layers_ - 1 - last;
    if (!last_stage) {
      if (left == 0) break;
      if (!settings_.replicas && left < ranks_ - used) break;
      if (static_cast<std::int64_t>(left) * costs_.most_replicas() < ranks_ - used) break;
    }
    bool recompute = false;
    if (limited_ && !fits(run.first, last, run.begin, run.replicas, false)) {
      if (!objective.recompute || !fits(run.first, last, run.begin, run.replicas, true)) break;
      recompute = true;
    }
    const double work = costs_.work_s(run.first, last, recompute);
    const double update = costs_.update_s(run.first, last) * shares.slowest / m;
    if (work * shares.busiest + update > period_ * k_slack) break;
    if (!allowed(run.stages, run.first, last)) continue;
    double paid = run.paid_before, bytes_behind = 0;
    if (!last_stage && objective.communication) {
      const LinkCost& link = costs_.link(used - 1);
      bytes_behind = costs_.message_bytes(last);
      paid += (1 - link.overlap) * link.transfer_s(bytes_behind);
    }
    double busy = work * shares.busiest + paid * part + update;
    if (settings_.rule != CutRule::bottleneck && objective.communication) {
      busy = std::max(busy,
                      costs_.carrying_s(run.begin, run.replicas, run.bytes_before, bytes_behind));
    }
    if (run.replicas > 1) {
      busy = std::max(busy, estimator_.reduction_s({run.first, last, run.begin, run.replicas}) / m);
    }
    if (busy > period_ * k_slack) continue;

    const double time = work * shares.mean + paid + update;
    double carry = 0;
    switch (settings_.rule) {
      case CutRule::bottleneck:
        if (2 * run.link_before > period_ * k_slack) continue;
        carry = from.carry + run.link_before;
        break;
      case CutRule::stages:
        carry = from.carry + run.link_before;
        break;
      case CutRule::neighbours:
        if (run.first > 0 && from.carry + busy + 2 * run.link_before > 2 * period_ * k_slack) {
          continue;
        }
        carry = busy;
        break;
      case CutRule::cycle: {
        carry = time - period_ * shares.working;
        if (run.first > 0) {
          const double gap = settings_.gap * std::max(from.replicas, shares.working);
          carry = std::max(carry, from.carry + time + 2 * run.link_before - period_ * gap);
        }
        if (carry > period_ * 1e-9) continue;
        break;
      }
    }
    State& to = state(run.stages + 1, last + 1, used);
    if (static_cast<float>(carry) < to.carry) {
      to = {static_cast<float>(carry), run.first, run.replicas, from.replicas};
    }
  }
}

void Cutter::extend(int stages, int first, int ranks) {
  const State from = state(stages, first, ranks);
  if (from.carry == k_none) return;
  // Stages have numbers where somebody asks for them: without replicas, that of their rank.
  const int number = depth_ == 1 ? (settings_.replicas ? 0 : ranks) : stages;
  const int most = settings_.replicas ? std::min(costs_.most_replicas(), ranks_ - ranks) : 1;
  Run run{number, first, ranks, 1, nullptr};
  if (first > 0 && estimator_.objective().communication) {
    const LinkCost& link = costs_.link(ranks - 1);
    const double message = costs_.message_bytes(first - 1);
    run.paid_before = (1 - link.overlap) * link.transfer_s(message);
    run.bytes_before = message;
    run.link_before = link.transfer_s(message);
  }
  for (int replicas = 1; replicas <= most; ++replicas) {
    run.replicas = replicas;
    run.shares = &costs_.shares(ranks, replicas);
    if (depth_ > 1 && number + 1 >= depth_) break;
    grow(run, from);
  }
}

std::optional<Parts> Cutter::within(double period) {
  period_ = period;
  if (costs_.equal_ranks() && !count_needed()) return std::nullopt;
  states_.assign(at(depth_) * at(layers_ + 1) * at(ranks_ + 1), {});
  state(0, 0, 0) = {0, -1, 0, 0};
  for (int stages = 0; stages < depth_; ++stages) {
    for (int layer = 0; layer < layers_; ++layer) {
      for (int rank = 0; rank < ranks_; ++rank) extend(stages, layer, rank);
    }
  }
  const auto reached = [&](int stages) { return state(stages, layers_, ranks_).carry != k_none; };
  if (depth_ == 1) return reached(0) ? std::optional(trace(0)) : std::nullopt;
  if (settings_.stages > 0) {
    return reached(settings_.stages) ? std::optional(trace(settings_.stages)) : std::nullopt;
  }
  for (int stages = 1; stages < depth_; ++stages) {
    if (reached(stages)) return trace(stages);
  }
  return std::nullopt;
}

Parts Cutter::trace(int stages) const {
  Parts parts;
  int layer = layers_, rank = ranks_;
  while (layer > 0) {
    const int depth = depth_ == 1 ? 0 : stages;
    const State& here =
        states_[(at(depth) * at(layers_ + 1) + at(layer)) * at(ranks_ + 1) + at(rank)];
    rank -= here.replicas;
    parts.push_back({here.first, layer - 1, rank, here.replicas, false});
    layer = here.first;
    --stages;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::optional<Cutter::Best> Cutter::best(double tolerance) {
  double low = costs_.work_s(0, layers_ - 1) / costs_.speed(0, ranks_);
  if (!(low > 0)) low = 1e-12;
  double high = low;
  std::optional<Best> found;
  // From the bound up, in ever longer steps: near it few states are in reach.
  for (double slack = 0.01; !found && slack < 1e9; slack *= 2) {
    low = high;
    high = costs_.work_s(0, layers_ - 1) / costs_.speed(0, ranks_) * (1 + slack);
    high = std::max(high, 1e-12 * (1 + slack));
    if (auto parts = within(high)) found = Best{std::move(*parts), high};
  }
  if (!found) return found;
  while (high - low > tolerance * low) {
    const double middle = (low + high) / 2;
    if (auto parts = within(middle)) {
      found = Best{std::move(*parts), middle};
      high = middle;
    } else {
      low = middle;
    }
  }
  return found;
}

}  // namespace dynpipe::planner
