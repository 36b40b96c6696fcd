#include "planner/estimate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dynpipe::planner {
namespace {

/// Shortening the period by less than this is not worth a longer warm-up.
constexpr double k_least_gain = 1e-6;
/// Buffers of what leaves: one is filled while another is on its way.
constexpr int k_leaving_in_turns = 2;
/// Steps of a walk over warm-ups: each raises W where it costs most.
constexpr int k_most_steps = 24;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

int rounded_up(double quotient) {
  return static_cast<int>(std::ceil(quotient - 1e-9));
}

/// By how many microbatches a stage's forward is ahead of the backward that it follows.
int ahead_of_backward(int warmup, int replicas) {
  return replicas * ((warmup + replicas) / replicas);
}
/// By how many a stage's backward is behind the forward that it follows.
int behind_forward(int warmup, int replicas) {
  return replicas * (warmup / replicas);
}

}  // namespace

double mean_delay(const std::vector<double>& weights, const std::vector<int>& delays) {
  double weighted = 0, total = 0;
  for (std::size_t s = 0; s < weights.size(); ++s) {
    weighted += weights[s] * weights[s] * delays[s] * delays[s];
    total += weights[s] * weights[s];
  }
  return total > 0 ? std::sqrt(weighted / total) : 0;
}

double Estimator::transfer_s(const Part& before, const Part& after) const {
  if (!objective_.communication) return 0;
  return costs_.link(before, after).transfer_s(costs_.message_bytes(before.last));
}

double Estimator::reduction_s(const Part& part) const {
  if (part.replicas == 1 || !objective_.communication) return 0;
  const double bytes = costs_.parameter_bytes(part.first, part.last) / part.replicas;
  double slowest = 0;
  for (int p = part.begin; p + 1 < part.begin + part.replicas; ++p) {
    const LinkCost& link = costs_.link(p);
    slowest =
        std::max(slowest, 2 * (link.latency_s + (part.replicas - 1) * bytes * link.s_per_byte));
  }
  return slowest;
}

Estimator::Terms Estimator::terms_of(const Parts& parts) const {
  Terms terms;
  const int m = costs_.microbatches();
  for (std::size_t s = 0; s < parts.size(); ++s) {
    const Part& part = parts[s];
    const Shares& shares = costs_.shares(part.begin, part.replicas);
    const double work = costs_.work_s(part.first, part.last, part.recompute);
    const double update = costs_.update_s(part.first, part.last) * shares.slowest;
    double paid = 0;      // of transfers, by the receiver's core
    double carrying = 0;  // of messages into a rank, of all its microbatches
    if (objective_.communication) {
      double bytes_before = 0, bytes_behind = 0;
      const auto add = [&](const Part& before, const Part& after, double& bytes) {
        const LinkCost link = costs_.link(before, after);
        bytes = costs_.message_bytes(before.last);
        paid += (1 - link.overlap) * link.transfer_s(bytes);
        if (before.replicas == 1 && after.replicas == 1) {
          carrying = std::max(carrying, bytes * link.s_per_byte);
        }
      };
      if (s > 0) add(parts[s - 1], part, bytes_before);
      if (s + 1 < parts.size()) add(part, parts[s + 1], bytes_behind);
      carrying = std::max(carrying,
                          costs_.carrying_s(part.begin, part.replicas, bytes_before, bytes_behind));
    }
    const double reduction = reduction_s(part);
    terms.time_s.push_back(work * shares.mean + paid);
    const double computing = work * shares.busiest + update / m;
    terms.busy_s.push_back(std::max(computing + paid * shares.most / m, carrying + reduction / m));
    terms.least_s = std::max({terms.least_s, computing, carrying});
    terms.update_s.push_back(update);
    terms.exposed_s.push_back(reduction);
    terms.replicas.push_back(std::max(1, shares.working));
    if (s + 1 < parts.size()) terms.link_s.push_back(transfer_s(part, parts[s + 1]));
    terms.busiest_s = std::max(terms.busiest_s, terms.busy_s.back());
  }
  return terms;
}

double Estimator::least_period_s(const Parts& parts) const {
  return terms_of(parts).least_s * costs_.microbatches();
}

double Estimator::period_s(const Parts& parts, const std::vector<int>& warmups) const {
  return group_s(parts, terms_of(parts), warmups);
}

double Estimator::period_s(const Terms& terms, const std::vector<int>& warmups) const {
  const auto stages = static_cast<int>(terms.time_s.size());
  const int m = costs_.microbatches();
  double period = terms.busiest_s;
  for (int i = 0; i < stages; ++i) {
    const int ahead = ahead_of_backward(warmups[at(i)], terms.replicas[at(i)]);
    double chain = terms.time_s[at(i)];
    for (int j = i + 1; j < stages; ++j) {
      chain += terms.time_s[at(j)] + 2 * terms.link_s[at(j - 1)];
      const int apart = ahead - behind_forward(warmups[at(j)], terms.replicas[at(j)]);
      // A chain that comes back to stage i every `apart` microbatches meets an update so often.
      const double updates = terms.update_s[at(i)] * std::gcd(apart, m) / m;
      period = std::max(period, (chain + updates) / apart);
    }
  }
  return period;
}

std::vector<double> Estimator::exposed_s(const Parts& parts,
                                         const std::vector<int>& warmups) const {
  const Terms terms = terms_of(parts);
  const auto stages = static_cast<int>(parts.size());
  double longest = terms.busiest_s;
  int from = 0, to = 0;
  for (int i = 0; i < stages; ++i) {
    const int ahead = ahead_of_backward(warmups[at(i)], terms.replicas[at(i)]);
    double chain = terms.time_s[at(i)];
    for (int j = i + 1; j < stages; ++j) {
      chain += terms.time_s[at(j)] + 2 * terms.link_s[at(j - 1)];
      const double period = chain / (ahead - behind_forward(warmups[at(j)], terms.replicas[at(j)]));
      if (period <= longest) continue;
      longest = period;
      from = i;
      to = j;
    }
  }
  std::vector<double> exposed(parts.size(), 0);
  double links = 0;
  for (int s = from; s < to; ++s) links += terms.link_s[at(s)];
  for (int s = from; s < to && links > 0; ++s) {
    exposed[at(s)] = (longest - terms.busiest_s) * terms.link_s[at(s)] / links;
  }
  return exposed;
}

plan::Plan Estimator::plan_of(const Sketch& sketch) const {
  plan::Plan plan{objective_.schedule, objective_.policy, costs_.microbatches(), {}};
  for (std::size_t s = 0; s < sketch.parts.size(); ++s) {
    const Part& part = sketch.parts[s];
    const auto begin = costs_.order().begin() + part.begin;
    plan::Stage stage{part.first, part.last, {begin, begin + part.replicas}, {}, 0};
    stage.owners = costs_.shares(part.begin, part.replicas).owners;
    stage.warmup = sketch.warmups[s];
    stage.recompute = part.recompute;
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

std::vector<int> Estimator::warmups_within(const Terms& terms, double period) const {
  const auto stages = static_cast<int>(terms.time_s.size());
  const int m = costs_.microbatches();
  std::vector<int> warmups(terms.time_s.size(), 0);
  for (int i = stages - 2; i >= 0; --i) {
    double chain = terms.time_s[at(i)] + terms.update_s[at(i)] / m;
    int needed = 1;
    for (int j = i + 1; j < stages; ++j) {
      chain += terms.time_s[at(j)] + 2 * terms.link_s[at(j - 1)];
      needed = std::max(needed, behind_forward(warmups[at(j)], terms.replicas[at(j)]) +
                                    rounded_up(chain / period));
    }
    const int replicas = terms.replicas[at(i)];
    const int turns = (needed + replicas - 1) / replicas - 1;
    warmups[at(i)] = std::max({turns * replicas, warmups[at(i + 1)], stages - 1 - i});
  }
  return warmups;
}

double Estimator::group_s(const Parts& parts, const Terms& terms,
                          const std::vector<int>& warmups) const {
  const int m = costs_.microbatches();
  const auto stages = static_cast<int>(parts.size());
  if (!objective_.synchronous()) {
    double group = period_s(terms, warmups) * m;
    const std::vector<int> taus = delays(warmups);
    for (int s = 0; s < stages; ++s) {
      // The sum goes on while the stage runs ahead to the group that needs it.
      const double hidden = (taus[at(s)] * m - warmups[at(s)]) * group / m;
      group = std::max(group, terms.busy_s[at(s)] * m +
                                  std::max(0.0, terms.exposed_s[at(s)] - std::max(0.0, hidden)));
    }
    return group;
  }
  std::vector<int> within = warmups;
  for (int& w : within) w = std::min(w, m);
  double through = 0, links = 0, saved = 0, late = 0;
  double forward = 0, backward = 0;
  for (int s = 0; s < stages; ++s) {
    const Part& part = parts[at(s)];
    const Shares& shares = costs_.shares(part.begin, part.replicas);
    const double forward_s = costs_.forward_s(part.first, part.last);
    forward = std::max(forward, forward_s * shares.busiest);
    backward =
        std::max(backward, (costs_.work_s(part.first, part.last, part.recompute) - forward_s) *
                               shares.busiest);
    through += terms.time_s[at(s)];
    if (s + 1 < stages) links += terms.link_s[at(s)];
    if (s > 0) saved += 2 * costs_.backward_weight_s(part.first, part.last) * shares.mean;
    late = std::max(late, terms.exposed_s[at(s)] + terms.update_s[at(s)]);
  }
  switch (objective_.schedule) {
    case plan::Schedule::gpipe:
      return through + 2 * links + (m - 1) * (forward + backward) + late;
    case plan::Schedule::zb_h1:
      return std::max(terms.busiest_s * m,
                      through + 2 * links - saved + (m - 1) * period_s(terms, within) + late);
    default:
      return through + 2 * links + (m - 1) * period_s(terms, within) + late;
  }
}

int Estimator::most_warmup() const {
  const int most = 256 + 4 * costs_.ranks();
  return objective_.synchronous() ? std::min(most, costs_.microbatches() + costs_.ranks()) : most;
}

std::vector<int> Estimator::delays(const std::vector<int>& warmups) const {
  std::vector<int> taus(warmups.size(), 0);
  if (objective_.synchronous()) return taus;
  const int m = costs_.microbatches();
  for (std::size_t s = 0; s < warmups.size(); ++s) {
    const bool own = objective_.policy == plan::WeightPolicy::stash;
    taus[s] = (warmups[own ? s : 0] + m - 1) / m;
  }
  return taus;
}

double Estimator::delay(const Parts& parts, const std::vector<int>& warmups) const {
  const std::vector<int> taus = delays(warmups);
  if (taus.front() == 0) return 0;  // the first stage's is the largest
  std::vector<double> shares;
  for (const Part& part : parts) shares.push_back(costs_.parameter_share(part.first, part.last));
  return mean_delay(shares, taus);
}

int Estimator::in_flight(const Part& part, int warmup, int first_warmup) const {
  const int m = costs_.microbatches();
  int window = warmup + 1;
  if (objective_.schedule == plan::Schedule::gpipe) window = m;
  if (objective_.schedule == plan::Schedule::one_f_one_b) window = std::min(warmup + 1, m);
  if (objective_.schedule == plan::Schedule::zb_h1) {
    window = std::min((part.recompute ? warmup : first_warmup) + 1, m);
  }
  if (part.replicas == 1) return window;
  const Shares& shares = costs_.shares(part.begin, part.replicas);
  if (window >= m && objective_.synchronous()) return shares.most;
  // Turns are spread evenly: a window never holds more than one above a replica's share of it.
  int most = 0;
  std::vector<int> owned(at(part.replicas));
  for (int r = 0; r < part.replicas; ++r) {
    std::vector<int> before(at(m + 1), 0);
    for (int j = 0; j < m; ++j) {
      before[at(j + 1)] = before[at(j)] + (shares.owners[at(j)] == r ? 1 : 0);
    }
    const auto until = [&](int k) { return k / m * before[at(m)] + before[at(k % m)]; };
    for (int j = 0; j < m; ++j) most = std::max(most, until(j + window) - until(j));
  }
  return most;
}

int Estimator::effective_warmup(int warmup) const {
  if (objective_.schedule == plan::Schedule::gpipe) return costs_.microbatches();
  return objective_.synchronous() ? std::min(warmup, costs_.microbatches()) : warmup;
}

schedule::Footprint Estimator::footprint(const Parts& parts, const std::vector<int>& warmups,
                                         int s) const {
  const Part& part = parts[at(s)];
  const int warmup = effective_warmup(warmups[at(s)]);
  const int held = in_flight(part, warmup, effective_warmup(warmups.front()));
  schedule::Footprint most;
  most.lean_forwards = part.recompute && held > 1;
  most.activations = most.lean_forwards ? 1 : held;
  most.inputs = held;
  if (s > 0) most.inputs += std::max(1, effective_warmup(warmups[at(s - 1)]) - warmup);
  most.incoming_gradients = s + 1 < static_cast<int>(parts.size()) ? 2 : 0;
  // Replicas update as late as they may: at the end of a segment all groups in flight are open.
  most.gradient_sums = part.replicas > 1 ? delays(warmups)[at(s)] + 1 : 1;
  if (objective_.schedule == plan::Schedule::zb_h1) {
    const int lag = part.recompute ? 0 : effective_warmup(warmups.front()) - warmup;
    most.deferred = std::min(lag + 1, held);
    if (most.incoming_gradients > 0) most.incoming_gradients += lag;
  }
  return most;
}

double Estimator::memory_bytes(const Parts& parts, const std::vector<int>& warmups, int s) const {
  const Part& part = parts[at(s)];
  const schedule::Footprint most = footprint(parts, warmups, s);
  const double parameters = costs_.parameter_bytes(part.first, part.last);
  // Beside its own gradients a replica has parts of the others'.
  const double sum = parameters * (part.replicas > 1 ? 2 : 1);
  double bytes = parameters * (delays(warmups)[at(s)] + 1) + sum * most.gradient_sums +
                 costs_.state_bytes(part.first, part.last) +
                 costs_.kept_bytes(part.first, part.last) * most.activations;
  const double input = costs_.buffer_bytes(part.first - 1);
  const double output = costs_.buffer_bytes(part.last);
  bytes += input * (most.inputs + (s > 0 ? k_leaving_in_turns : 0));
  bytes += output * most.incoming_gradients;
  if (most.lean_forwards && most.incoming_gradients > 0) bytes += output * k_leaving_in_turns;
  return bytes;
}

double Estimator::least_memory_bytes(Parts parts) const {
  std::vector<int> warmups;
  for (std::size_t s = 0; s < parts.size(); ++s) {
    warmups.push_back(static_cast<int>(parts.size() - 1 - s));
  }
  double most = 0;
  for (int s = 0; s < static_cast<int>(parts.size()); ++s) {
    double bytes = memory_bytes(parts, warmups, s);
    if (objective_.recompute) {
      parts[at(s)].recompute = true;
      bytes = std::min(bytes, memory_bytes(parts, warmups, s));
      parts[at(s)].recompute = false;
    }
    most = std::max(most, bytes);
  }
  return most;
}

std::vector<int> Estimator::walk(const Parts& parts, std::vector<Sketch>& found) const {
  const Terms terms = terms_of(parts);
  const auto stages = static_cast<int>(parts.size());
  std::vector<int> warmups(parts.size(), 0);
  for (int s = stages - 2; s >= 0; --s) {
    // Without spare microbatches replicas still have one in hand each.
    const int gap =
        objective_.spare_warmup ? 1 : std::max(terms.replicas[at(s)], terms.replicas[at(s + 1)]);
    warmups[at(s)] = warmups[at(s + 1)] + gap;
  }
  double best = std::numeric_limits<double>::infinity();
  std::vector<int> full;
  for (int step = 0; step < k_most_steps; ++step) {
    for (int s = 0; s < stages; ++s) {
      const Part& part = parts[at(s)];
      const double limit =
          std::min(objective_.memory_bytes, costs_.memory_bytes(part.begin, part.replicas));
      if (limit < std::numeric_limits<double>::infinity() &&
          memory_bytes(parts, warmups, s) > limit) {
        full.push_back(s);
      }
    }
    if (!full.empty()) break;
    const double period = group_s(parts, terms, warmups);
    const double tau = delay(parts, warmups);
    const double objective = period * (1 + objective_.kappa * tau);
    if (objective < best * (1 - k_least_gain)) {
      best = objective;
      found.push_back({parts, warmups, period, tau, objective});
    }
    if (objective_.schedule == plan::Schedule::gpipe || !objective_.spare_warmup) break;
    const double floor = terms.busiest_s * costs_.microbatches();
    const double now = period_s(terms, warmups);
    if (floor * (1 + objective_.kappa * tau) >= best * (1 - k_least_gain) ||
        now <= terms.busiest_s * (1 + k_least_gain)) {
      break;
    }
    std::vector<int> next =
        warmups_within(terms, std::max(terms.busiest_s, now * (1 - k_least_gain)));
    // Updates count once in M in what is needed, and more often in what comes of it.
    for (int s = 0; s < stages; ++s) next[at(s)] = std::max(next[at(s)], warmups[at(s)]);
    if (next == warmups) {
      for (int s = 0; s + 1 < stages; ++s) ++next[at(s)];
    }
    if (next.front() > most_warmup()) break;
    if (objective_.synchronous() && warmups.front() >= costs_.microbatches()) break;
    warmups = std::move(next);
  }
  return full;
}

std::vector<Sketch> Estimator::options(const Parts& given) const {
  std::vector<Sketch> found;
  Parts parts = given;
  for (Part& part : parts) part.recompute = false;
  for (std::size_t attempt = 0; attempt <= parts.size(); ++attempt) {
    const std::vector<int> full = walk(parts, found);
    bool changed = false;
    for (int s : full) {
      if (!objective_.recompute || parts[at(s)].recompute) return found;
      parts[at(s)].recompute = changed = true;
    }
    if (!changed) break;
  }
  return found;
}

}  // namespace dynpipe::planner
