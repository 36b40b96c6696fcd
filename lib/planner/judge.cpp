#include "planner/judge.hpp"

#include <algorithm>
#include <cmath>

#include "planner/workload.hpp"
#include "schedule/schedule.hpp"

namespace dynpipe::planner {
namespace {

/// Groups to fill the pipeline, to look at, and to empty it, of which the last tell nothing.
struct Groups {
  int fill, look, empty;
  int all() const { return fill + look + empty; }
};

Groups groups_for(const plan::Plan& plan) {
  if (plan.synchronous()) return {2, 2, 0};
  const int m = plan.microbatches;
  const int in_flight = (plan.stages.front().warmup + m - 1) / m;
  // Long chains repeat after several groups; many small groups cost little.
  const int look = plan.ranks() > 8 ? 6 : std::clamp(96 / m, 8, 24);
  return {in_flight + 3, look, in_flight + 2};
}

/// The mean time between updates over the longest whole number of repetitions there is in
/// `times`; over all of it where nothing repeats.
double repeated_period_s(const std::vector<double>& times) {
  const std::size_t last = times.size() - 1;
  for (std::size_t apart = 1; 2 * apart <= last; ++apart) {
    const double span = times[last] - times[last - apart];
    bool repeats = true;
    for (std::size_t g = last; repeats && g >= last - apart; --g) {
      repeats = std::abs(times[g] - times[g - apart] - span) <= 1e-9 * times[last];
    }
    if (repeats) return span / static_cast<double>(apart);
  }
  return (times[last] - times[0]) / static_cast<double>(last);
}

}  // namespace

Judge::Judge(const model::Profile& profile, const Cluster& cluster, std::int64_t batch,
             double kappa)
    : profile_(profile), cluster_(cluster), batch_(batch), kappa_(kappa) {
  cluster_.events.clear();
  cluster_.jitter = 0;
}

std::int64_t Judge::steps_of(const plan::Plan& plan) {
  const auto stages = static_cast<std::int64_t>(plan.stages.size());
  std::int64_t sums = 0;  // each replica to each other, twice
  for (const plan::Stage& stage : plan.stages) {
    sums += std::int64_t{2} * stage.replicas() * (stage.replicas() - 1);
  }
  return groups_for(plan).all() * (6 * stages * plan.microbatches + 3 * plan.ranks() + sums);
}

Judgement Judge::operator()(const plan::Plan& plan) {
  const Groups groups = groups_for(plan);
  const auto streams = schedule::training_streams(plan, {0, groups.all()});
  steps_ += steps_of(plan);
  const SimulatedRun run = simulate(plan, streams, workload_of(profile_, plan, batch_), cluster_);

  Judgement judgement;
  const auto first = run.updates_s.begin() + groups.fill - 1;
  judgement.period_s = repeated_period_s({first, first + groups.look + 1});
  for (const SimulatedRank& rank : run.ranks) {
    // Where a rank still makes up for a late start, its updates are closer than it can go on with.
    judgement.period_s = std::max(judgement.period_s, rank.busy_s / groups.all());
  }
  judgement.delay = delay_of(plan, profile_);
  judgement.objective = judgement.period_s * (1 + kappa_ * judgement.delay);
  for (const SimulatedRank& rank : run.ranks) {
    const double all = rank.end_s > 0 ? rank.end_s : 1;
    judgement.ranks.push_back({rank.busy_s / all, rank.wait_activation_s / all,
                               rank.wait_gradient_s / all, rank.wait_reduction_s / all});
  }
  return judgement;
}

double delay_of(const plan::Plan& plan, const model::Profile& profile) {
  std::vector<double> weights;
  std::vector<int> delays;
  for (int s = 0; s < plan.size(); ++s) {
    const plan::Stage& stage = plan.stages[static_cast<std::size_t>(s)];
    double bytes = 0;
    for (int layer = stage.first; layer <= stage.last; ++layer) {
      bytes += static_cast<double>(profile.layers[static_cast<std::size_t>(layer)].parameter_bytes);
    }
    weights.push_back(bytes);
    delays.push_back(plan.delay(s));
  }
  return mean_delay(weights, delays);
}

}  // namespace dynpipe::planner
