#include "planner/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>

#include "base/counted.hpp"
#include "base/errors.hpp"
#include "planner/account.hpp"
#include "planner/candidates.hpp"
#include "planner/judge.hpp"

namespace dynpipe::planner {
namespace {

using base::counted;
using base::InputError;

/// Instructions that the simulator may run to pick one: where all cuts are compared, and else for
/// each schedule, policy and number of microbatches.
constexpr std::int64_t k_thorough_steps = 2'000'000;
constexpr std::int64_t k_brisk_steps = 15'000;
/// The part of it for what the formula thinks best; the rest goes on from the best of that.
constexpr double k_first_part = 0.5;
/// By formula a cut may be so much worse than the best simulated one and still be looked at.
constexpr double k_doubt = 1.1;
/// Cuts that are looked at in climbing, times the square of their stages: formulas of long
/// pipelines take longer.
constexpr double k_climbing = 300'000;
constexpr int k_most_cuts = 250;
/// The same for the best of a setting, and for baselines, against the best of all.
constexpr double k_hope = 1.3;
constexpr std::size_t k_sketches = 1000;
/// On so few, stages may also have more replicas than microbatches.
constexpr int k_few_ranks = 16;

/// One way to run the model: all that a cut is judged within.
struct Setting {
  std::unique_ptr<CostModel> costs;
  std::unique_ptr<Estimator> estimator;
};

struct Candidate {
  const Estimator* estimator;
  Sketch sketch;
};

void sort_by_formula(std::vector<Candidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return a.sketch.objective < b.sketch.objective;
                   });
}

/// The best of every setting first.
void put_leaders_first(std::vector<Candidate>& sorted) {
  if (sorted.empty()) return;
  const double hopeful = k_hope * sorted.front().sketch.objective;
  std::set<const Estimator*> led;
  std::vector<Candidate> leaders, others;
  for (Candidate& candidate : sorted) {
    const bool leads =
        candidate.sketch.objective <= hopeful && led.insert(candidate.estimator).second;
    (leads ? leaders : others).push_back(std::move(candidate));
  }
  leaders.insert(leaders.end(), std::make_move_iterator(others.begin()),
                 std::make_move_iterator(others.end()));
  sorted = std::move(leaders);
}

std::vector<std::vector<int>> orders_of(const Cluster& cluster, const SearchRequest& request) {
  std::vector<int> given(static_cast<std::size_t>(ranks_of(cluster, request)));
  std::iota(given.begin(), given.end(), 0);
  std::vector<std::vector<int>> orders = {given};
  if (!request.reorder) return orders;
  const auto slowdown = [&](int rank) {
    return cluster.ranks[static_cast<std::size_t>(rank)].slowdown;
  };
  for (const double sign : {1.0, -1.0}) {
    std::vector<int> sorted = given;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](int a, int b) { return sign * slowdown(a) < sign * slowdown(b); });
    if (std::find(orders.begin(), orders.end(), sorted) == orders.end()) orders.push_back(sorted);
  }
  return orders;
}

void check(const model::Profile& profile, int ranks, const SearchRequest& request) {
  const auto layers = static_cast<int>(profile.layers.size());
  if (!request.replicas && ranks > layers) {
    throw InputError("", "replicas",
                     fmt::format("{} for {} need stages of several ranks, which were ruled out",
                                 counted(ranks, "rank"), counted(layers, "layer")));
  }
  if (request.stages > std::min(ranks, layers)) {
    throw InputError(
        "", "stages",
        fmt::format("{} are more than there are {}", request.stages,
                    ranks < layers ? counted(ranks, "rank") : counted(layers, "layer")));
  }
  if (!request.replicas && request.stages > 0 && request.stages != ranks) {
    throw InputError(
        "", "stages",
        fmt::format("must be {} where every stage has one rank, is {}", ranks, request.stages));
  }
  const int stages = request.stages > 0 ? request.stages : std::min(ranks, layers);
  int behind = 0;
  for (std::size_t layer = 0; layer < request.pins.size(); ++layer) {
    const int pin = request.pins[layer];
    if (pin < 0) continue;
    const std::string& name = profile.layers[layer].name;
    if (pin >= stages) {
      throw InputError("", "pin",
                       fmt::format("'{}' in stage {}: there are at most {}", name, pin,
                                   counted(stages, "stage")));
    }
    if (pin < behind || pin > static_cast<int>(layer)) {
      throw InputError("", "pin",
                       fmt::format("'{}' in stage {} contradicts the layers' order", name, pin));
    }
    behind = pin;
  }
}

Objective objective_of(const SearchRequest& request, plan::Schedule schedule,
                       plan::WeightPolicy policy) {
  Objective objective;
  objective.schedule = schedule;
  objective.policy = policy;
  objective.kappa = request.staleness ? request.kappa : 0;
  objective.memory_bytes = request.memory_bytes;
  objective.recompute = request.recompute;
  objective.communication = request.communication;
  objective.spare_warmup = request.spare_warmup;
  return objective;
}

std::vector<Setting> settings_of(const model::Profile& profile, const Cluster& cluster,
                                 const SearchRequest& request) {
  std::vector<Setting> settings;
  for (const std::vector<int>& order : orders_of(cluster, request)) {
    for (const int m : request.microbatches) {
      if (m > request.batch) continue;
      for (const plan::Schedule schedule : request.schedules) {
        for (const plan::WeightPolicy policy : request.policies) {
          // Versions are a matter of asynchronous schedules alone.
          if (schedule != plan::Schedule::asynchronous && policy != request.policies.front()) {
            continue;
          }
          const int ranks = ranks_of(cluster, request);
          const auto layers = static_cast<std::int64_t>(profile.layers.size());
          const bool all = ranks <= k_few_ranks || ranks > layers * m;
          Setting setting;
          setting.costs = std::make_unique<CostModel>(profile, cluster, order, request.batch, m,
                                                      all ? ranks : m);
          setting.estimator =
              std::make_unique<Estimator>(*setting.costs, objective_of(request, schedule, policy));
          settings.push_back(std::move(setting));
        }
      }
    }
  }
  if (settings.empty()) {
    throw InputError(
        "", "microbatches",
        fmt::format("are more than the {} of a batch", counted(request.batch, "sample")));
  }
  return settings;
}

CutSettings cut_settings(const model::Profile& profile, const SearchRequest& request, int ranks) {
  CutSettings settings;
  settings.pins = request.pins;
  settings.stages = request.stages;
  settings.replicas = request.replicas && ranks > 1;
  const auto separate = std::count_if(profile.layers.begin(), profile.layers.end(),
                                      [](const auto& layer) { return !layer.joined; });
  const bool enough = separate >= (request.replicas ? std::max(1, request.stages) : ranks);
  if (enough && separate < static_cast<std::ptrdiff_t>(profile.layers.size())) {
    for (const model::LayerProfile& layer : profile.layers) {
      settings.may_begin.push_back(!layer.joined);
    }
    settings.may_begin.front() = true;
  }
  return settings;
}

[[noreturn]] void refuse(const std::vector<Setting>& settings, const CutSettings& cuts,
                         const SearchRequest& request) {
  double least = std::numeric_limits<double>::infinity();
  for (const Setting& setting : settings) {
    least = std::min(least, leanest_cut(*setting.estimator, cuts).bytes);
  }
  if (!std::isfinite(least)) {
    throw InputError("", "pin", "no cut of the layers into stages keeps all of them");
  }
  constexpr double k_mebibyte = 1 << 20;
  const std::string limit =
      std::isfinite(request.memory_bytes)
          ? fmt::format("of {:.0f} MiB", std::floor(request.memory_bytes / k_mebibyte))
          : "of the cluster's ranks";
  throw InputError(
      "", "memory limit",
      fmt::format("no plan fits into that {}; the smallest that one fits is {:.0f} MiB", limit,
                  std::ceil(least / k_mebibyte)));
}

/// Simulates as long as the effort lasts, and keeps the best.
class Picker {
 public:
  Picker(Judge judge, std::int64_t most_steps)
      : judge_(std::move(judge)), most_steps_(most_steps) {}

  /// One plan at least, where it is not too large.
  bool may(const plan::Plan& plan) const {
    return Judge::steps_of(plan) <= k_most_steps &&
           (judge_.steps() == 0 || judge_.steps() + Judge::steps_of(plan) <= most_steps_);
  }
  /// Its objective.
  double consider(const plan::Plan& plan, std::optional<Baseline> baseline = {}) {
    const Judgement judgement = judge_(plan);
    if (better(judgement.objective)) best_ = {plan, judgement, baseline, judgement.objective};
    return judgement.objective;
  }
  std::int64_t steps() const { return judge_.steps(); }
  bool better(double objective) const { return objective < best_.objective * (1 - 1e-9); }
  /// Takes one that was not simulated.
  void believe(const plan::Plan& plan, double objective, std::optional<Baseline> baseline = {}) {
    best_ = {plan, {}, baseline, objective};
  }
  const Verdict& best() const { return best_; }

 private:
  Judge judge_;
  std::int64_t most_steps_;
  Verdict best_;
};

bool fits(const Estimator& estimator, const Parts& parts, const std::vector<int>& warmups) {
  for (std::size_t s = 0; s < parts.size(); ++s) {
    const double limit =
        std::min(estimator.objective().memory_bytes,
                 estimator.costs().memory_bytes(parts[s].begin, parts[s].replicas));
    if (std::isfinite(limit) &&
        estimator.memory_bytes(parts, warmups, static_cast<int>(s)) > limit) {
      return false;
    }
  }
  return true;
}

/// Simulates a sketch, and from there warm-ups next to the best of its parts: what the formula does
/// not see are microbatches of two sizes, updates between them, links that are shared, replicas
/// that do not take even turns.
class Refinement {
 public:
  Refinement(Picker& picker, bool thorough) : picker_(picker), thorough_(thorough) {}

  /// Simulates what the formula thinks best.
  void run(const std::vector<Candidate>& candidates, std::int64_t most_steps) {
    const auto first =
        thorough_ ? most_steps
                  : static_cast<std::int64_t>(k_first_part * static_cast<double>(most_steps));
    for (const Candidate& candidate : candidates) {
      if (!left_ || (picker_.steps() > 0 && picker_.steps() >= first)) break;
      const double objective = simulate(candidate);
      if (thorough_) mend_warmups(candidate, objective);
    }
  }

  /// From the best ones on, cuts and warm-ups one step away, as long as one is better.
  void climb(const CutSettings& settings, int most_cuts) {
    std::stable_sort(simulated_.begin(), simulated_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    const std::vector<std::pair<double, Candidate>> starts = simulated_;
    if (starts.empty()) return;
    const std::size_t stages = starts.front().second.sketch.parts.size();
    int effort = std::min(most_cuts,
                          static_cast<int>(k_climbing / static_cast<double>(stages * stages + 64)));
    for (const auto& [objective, candidate] : starts) {
      if (!left_ || effort <= 0) return;
      climb_from(candidate, objective, settings, effort);
    }
  }

  /// Warm-ups next to those of a sketch, as long as one is better.
  void mend_warmups(const Candidate& candidate, double now) {
    const Estimator& estimator = *candidate.estimator;
    if (!std::isfinite(now) || !estimator.objective().spare_warmup ||
        estimator.objective().schedule == plan::Schedule::gpipe) {
      return;
    }
    Sketch sketch = candidate.sketch;
    for (bool moved = true; moved && left_;) {
      moved = false;
      for (std::size_t s = 0; s + 1 < sketch.parts.size(); ++s) {
        // The warm-ups up to stage s, or its own alone.
        for (const auto& [step, from] : std::initializer_list<std::pair<int, std::size_t>>{
                 {1, 0}, {1, s}, {-1, 0}, {-1, s}, {2, 0}, {3, 0}}) {
          Sketch next = sketch;
          for (std::size_t t = from; t <= s; ++t) next.warmups[t] += step;
          if (!possible(estimator, next.warmups)) continue;
          const double objective = simulate({&estimator, next});
          if (objective >= now * (1 - 1e-9)) continue;
          now = objective;
          sketch = std::move(next);
          moved = true;
        }
      }
    }
  }

 private:
  void climb_from(Candidate from, double now, const CutSettings& settings, int& effort) {
    const Cutter cutter(*from.estimator, settings);
    for (bool moved = true; moved && left_ && effort > 0;) {
      moved = false;
      mend_warmups(from, now);
      std::vector<Candidate> near;
      for (const Parts& parts : neighbours(from.sketch.parts, settings)) {
        if (effort == 0 || !cutter.allowed(parts)) continue;
        if (!picker_.better(from.estimator->least_period_s(parts))) continue;
        --effort;
        for (Sketch& sketch : from.estimator->options(parts)) {
          if (!picker_.better(sketch.objective / k_doubt)) continue;
          near.push_back({from.estimator, std::move(sketch)});
        }
      }
      sort_by_formula(near);
      for (const Candidate& candidate : near) {
        const double objective = simulate(candidate);
        if (objective >= now * (1 - 1e-9)) continue;
        now = objective;
        from = candidate;
        moved = true;
      }
    }
  }

  static bool possible(const Estimator& estimator, const std::vector<int>& warmups) {
    for (std::size_t s = 0; s + 1 < warmups.size(); ++s) {
      if (warmups[s] < std::max(static_cast<int>(warmups.size() - 1 - s), warmups[s + 1])) {
        return false;
      }
    }
    return warmups.front() <= estimator.most_warmup();
  }

  /// Infinite where it cannot be the best, or was looked at before.
  double simulate(const Candidate& candidate) {
    const Estimator& estimator = *candidate.estimator;
    const Sketch& sketch = candidate.sketch;
    constexpr double k_nothing = std::numeric_limits<double>::infinity();
    const double least =
        estimator.least_period_s(sketch.parts) *
        (1 + estimator.objective().kappa * estimator.delay(sketch.parts, sketch.warmups));
    if (!left_ || !picker_.better(least) || !fits(estimator, sketch.parts, sketch.warmups)) {
      return k_nothing;
    }
    std::vector<int> key = sketch.warmups;
    for (const Part& part : sketch.parts) {
      key.insert(key.end(), {part.last, part.replicas, part.recompute ? 1 : 0});
    }
    if (!seen_.insert({&estimator, std::move(key)}).second) return k_nothing;
    const plan::Plan plan = estimator.plan_of(sketch);
    left_ = picker_.may(plan);
    if (!left_) return k_nothing;
    const double objective = picker_.consider(plan);
    simulated_.emplace_back(objective, candidate);
    return objective;
  }

  Picker& picker_;
  bool thorough_;
  bool left_ = true;  ///< effort
  std::vector<std::pair<double, Candidate>> simulated_;
  std::set<std::pair<const Estimator*, std::vector<int>>> seen_;
};

void try_baselines(const model::Profile& profile, const Cluster& cluster,
                   const SearchRequest& request, Picker& picker) {
  for (const int m : request.microbatches) {
    if (m > request.batch) continue;
    const BaselineRequest like{request.batch, ranks_of(cluster, request), m,
                               request.policies.front(), request.layer_flops};
    for (const Baseline baseline : k_baselines) {
      if (!allows(request, schedule_of(baseline))) continue;
      const auto plan = baseline_plan(baseline, profile, cluster, like);
      if (!plan || !permitted(*plan, profile, cluster, request)) continue;
      const Expectation expected = expectation_of(*plan, profile, cluster, request);
      if (!picker.best().judgement) {
        if (picker.better(expected.objective)) picker.believe(*plan, expected.objective, baseline);
      } else if (picker.better(expected.least) && picker.better(expected.objective / k_hope) &&
                 Judge::steps_of(*plan) <= k_most_steps) {
        picker.consider(*plan, baseline);
      }
    }
  }
}

}  // namespace

PlanChoice search(const model::Profile& profile, const Cluster& cluster,
                  const SearchRequest& request) {
  const int ranks = ranks_of(cluster, request);
  check(profile, ranks, request);
  const std::vector<Setting> settings = settings_of(profile, cluster, request);
  const CutSettings cuts = cut_settings(profile, request, ranks);
  std::vector<Candidate> found;
  for (const Setting& setting : settings) {
    for (Sketch& sketch : candidates(*setting.estimator, cuts, k_sketches)) {
      found.push_back({setting.estimator.get(), std::move(sketch)});
    }
  }
  if (found.empty()) refuse(settings, cuts, request);
  sort_by_formula(found);
  put_leaders_first(found);

  const bool thorough = few_cuts(static_cast<int>(profile.layers.size()), ranks, cuts.replicas);
  const std::int64_t most_steps =
      thorough ? k_thorough_steps
               : k_brisk_steps * request.effort * static_cast<std::int64_t>(settings.size());
  Picker picker(Judge(profile, cluster, request.batch, request.staleness ? request.kappa : 0),
                most_steps);
  if (request.communication) {
    Refinement refinement(picker, thorough);
    refinement.run(found, most_steps);
    refinement.climb(cuts, thorough ? k_most_cuts * 100 : k_most_cuts * request.effort);
  }
  if (!picker.best().judgement) {
    const Candidate& first = found.front();
    picker.believe(first.estimator->plan_of(first.sketch), first.sketch.objective);
  }
  if (request.baselines) try_baselines(profile, cluster, request, picker);
  return account_of(picker.best(), profile, cluster, request);
}

std::optional<FewerRanks> better_with_fewer(const PlanChoice& choice, const model::Profile& profile,
                                            const Cluster& cluster, const SearchRequest& request) {
  SearchRequest fewer = request;
  fewer.microbatches = {choice.plan.microbatches};
  fewer.schedules = {choice.plan.schedule};
  fewer.policies = {choice.plan.policy};
  const int all = ranks_of(cluster, request);
  std::optional<FewerRanks> best;
  for (const int ranks : {all - 1, all - all / 4, all / 2, all / 4, 1}) {
    if (ranks < 1 || ranks >= all || (request.stages > 0 && ranks < request.stages)) continue;
    fewer.ranks = ranks;
    const std::vector<Setting> settings = settings_of(profile, cluster, fewer);
    const CutSettings cuts = cut_settings(profile, fewer, ranks);
    for (const Sketch& sketch : candidates(*settings.front().estimator, cuts, 1)) {
      const double gain = 1 - sketch.objective / choice.objective;
      if (gain > 0.01 && (!best || gain > best->gain)) best = {ranks, gain};
    }
  }
  return best;
}

}  // namespace dynpipe::planner
