#include "planner/account.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace dynpipe::planner {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

std::vector<int> order_of(const plan::Plan& plan) {
  std::vector<int> order;
  for (const plan::Stage& stage : plan.stages) {
    order.insert(order.end(), stage.ranks.begin(), stage.ranks.end());
  }
  return order;
}

/// A plan as the formulas see it.
struct Seen {
  Seen(const plan::Plan& plan, const model::Profile& profile, const Cluster& cluster,
       const SearchRequest& request)
      : costs(profile, cluster, order_of(plan), request.batch, plan.microbatches, 1),
        estimator(costs, objective_of(plan, request)) {
    int begin = 0;
    for (const plan::Stage& stage : plan.stages) {
      parts.push_back({stage.first, stage.last, begin, stage.replicas(), stage.recompute});
      warmups.push_back(stage.warmup);
      begin += stage.replicas();
    }
  }

  static Objective objective_of(const plan::Plan& plan, const SearchRequest& request) {
    Objective objective;
    objective.schedule = plan.schedule;
    objective.policy = plan.policy;
    objective.kappa = request.kappa;
    return objective;
  }

  CostModel costs;
  Estimator estimator;
  Parts parts;
  std::vector<int> warmups;
};

/// Of the busiest rank of a stage, by the turns of the plan, a microbatch.
double compute_s(const Seen& seen, const plan::Plan& plan, const Cluster& cluster, int s) {
  const plan::Stage& stage = plan.stages[at(s)];
  const double work = seen.costs.work_s(stage.first, stage.last, stage.recompute);
  const double update = seen.costs.update_s(stage.first, stage.last);
  double busiest = 0;
  for (int r = 0; r < stage.replicas(); ++r) {
    const auto owned = std::count(stage.owners.begin(), stage.owners.end(), r);
    const double slowdown = cluster.ranks[at(stage.ranks[at(r)])].slowdown;
    busiest = std::max(busiest, slowdown * (static_cast<double>(owned) * work + update));
  }
  return busiest / plan.microbatches;
}

double bound_s(const Seen& seen, const Cluster& cluster, const SearchRequest& request) {
  const CostModel& costs = seen.costs;
  const int m = costs.microbatches();
  const auto all = [&](int first, int last) {
    return m * costs.work_s(first, last) + costs.update_s(first, last);
  };
  double fastest = std::numeric_limits<double>::infinity();
  for (const int rank : costs.order()) {
    fastest = std::min(fastest, cluster.ranks[at(rank)].slowdown);
  }
  double bound = all(0, costs.layers() - 1) / costs.speed(0, costs.ranks());
  const int sharing = request.replicas ? std::min(m, costs.ranks()) : 1;
  for (int layer = 0; layer < costs.layers(); ++layer) {
    bound = std::max(
        bound, fastest * (m * costs.work_s(layer, layer) / sharing + costs.update_s(layer, layer)));
  }
  return bound;
}

std::string shortened(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.1f} us", seconds * 1e6)
                        : fmt::format("{:.2f} ms", seconds * 1e3);
}

/// What keeps the period from the bound, by the largest part of it.
std::string limit_of(const PlanChoice& choice, const model::Profile& profile) {
  const int m = choice.plan.microbatches;
  const double above = choice.period_s / m - choice.bound_s / m;
  if (above < 0.01 * choice.bound_s / m) return "at the bound, within 1 %";
  int busiest = 0;
  double exposed = 0, reduction = 0;
  for (int s = 0; s < choice.plan.size(); ++s) {
    const StageReport& stage = choice.stages[at(s)];
    if (stage.compute_s > choice.stages[at(busiest)].compute_s) busiest = s;
    exposed += stage.exposed_s;
    reduction = std::max(reduction, stage.reduction_s / m);
  }
  const double uneven = choice.stages[at(busiest)].compute_s - choice.bound_s / m;
  const double rest = choice.period_s / m - choice.stages[at(busiest)].compute_s;
  const std::string share =
      fmt::format("{} of {} a microbatch", shortened(rest), shortened(choice.period_s / m));
  if (rest > uneven) {
    if (choice.plan.synchronous())
      return "filling and emptying the pipeline at every update: " + share;
    if (exposed > rest / 2) return "transfers that no other work hides: " + share;
    if (reduction > rest / 2) return "summing gradients over replicas: " + share;
    return "waiting for messages that share links, or for turns of replicas: " + share;
  }
  const plan::Stage& stage = choice.plan.stages[at(busiest)];
  return fmt::format("stage {} ({}{}), {} a microbatch, {:.0f} % above an even share: {}", busiest,
                     profile.layers[at(stage.first)].name,
                     stage.last > stage.first ? " to " + profile.layers[at(stage.last)].name : "",
                     shortened(choice.stages[at(busiest)].compute_s),
                     100 * (choice.stages[at(busiest)].compute_s / (choice.bound_s / m) - 1),
                     stage.recompute ? "it runs forwards twice, for want of memory"
                                     : "whole layers and whole microbatches share out no better");
}

}  // namespace

PlanChoice account_of(const Verdict& verdict, const model::Profile& profile, const Cluster& cluster,
                      const SearchRequest& request) {
  const Seen seen(verdict.plan, profile, cluster, request);
  PlanChoice choice;
  choice.plan = verdict.plan;
  choice.baseline = verdict.baseline;
  choice.delay = delay_of(verdict.plan, profile);
  choice.bound_s = bound_s(seen, cluster, request);
  choice.simulated = verdict.judgement.has_value();
  choice.period_s = choice.simulated ? verdict.judgement->period_s
                                     : seen.estimator.period_s(seen.parts, seen.warmups);
  choice.objective = choice.period_s * (1 + request.kappa * choice.delay);
  const std::vector<double> exposed = seen.estimator.exposed_s(seen.parts, seen.warmups);
  for (int s = 0; s < verdict.plan.size(); ++s) {
    StageReport report;
    report.compute_s = compute_s(seen, verdict.plan, cluster, s);
    if (s + 1 < verdict.plan.size()) {
      report.transfer_s = seen.estimator.transfer_s(seen.parts[at(s)], seen.parts[at(s + 1)]);
    }
    report.exposed_s = exposed[at(s)];
    report.reduction_s = seen.estimator.reduction_s(seen.parts[at(s)]);
    report.memory_bytes = seen.estimator.memory_bytes(seen.parts, seen.warmups, s);
    report.delay = verdict.plan.delay(s);
    choice.stages.push_back(report);
  }
  choice.limit = limit_of(choice, profile);
  return choice;
}

PlanChoice judged(const plan::Plan& plan, const model::Profile& profile, const Cluster& cluster,
                  const SearchRequest& request) {
  Verdict verdict;
  verdict.plan = plan;
  if (Judge::steps_of(plan) <= k_most_steps) {
    verdict.judgement = Judge(profile, cluster, request.batch, request.kappa)(plan);
  }
  return account_of(verdict, profile, cluster, request);
}

bool permitted(const plan::Plan& plan, const model::Profile& profile, const Cluster& cluster,
               const SearchRequest& request) {
  if (request.stages > 0 && plan.size() != request.stages) return false;
  const Seen seen(plan, profile, cluster, request);
  for (int s = 0; s < plan.size(); ++s) {
    const plan::Stage& stage = plan.stages[at(s)];
    if (!request.replicas && stage.replicas() > 1) return false;
    for (int layer = stage.first; layer <= stage.last && !request.pins.empty(); ++layer) {
      const int pin = request.pins[at(layer)];
      if (pin >= 0 && pin != s) return false;
    }
    const double limit = std::min(
        request.memory_bytes, seen.costs.memory_bytes(seen.parts[at(s)].begin, stage.replicas()));
    if (seen.estimator.memory_bytes(seen.parts, seen.warmups, s) > limit) return false;
  }
  return true;
}

bool allows(const SearchRequest& request, plan::Schedule schedule) {
  return std::find(request.schedules.begin(), request.schedules.end(), schedule) !=
         request.schedules.end();
}

Expectation expectation_of(const plan::Plan& plan, const model::Profile& profile,
                           const Cluster& cluster, const SearchRequest& request) {
  const Seen seen(plan, profile, cluster, request);
  double busiest = 0;
  for (int s = 0; s < plan.size(); ++s) {
    busiest = std::max(busiest, compute_s(seen, plan, cluster, s));
  }
  const double kappa = request.staleness ? request.kappa : 0;
  const double counted = 1 + kappa * delay_of(plan, profile);
  return {
      seen.estimator.period_s(seen.parts, seen.warmups) * counted,
      std::max(busiest * plan.microbatches, seen.estimator.least_period_s(seen.parts)) * counted};
}

}  // namespace dynpipe::planner
