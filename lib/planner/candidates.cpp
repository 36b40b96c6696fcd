#include "planner/candidates.hpp"

#include <algorithm>
#include <functional>

namespace dynpipe::planner {
namespace {

constexpr double k_few_cuts = 12'000;
/// Cuts whose busiest rank alone takes so much longer than the best estimate are not looked into.
constexpr double k_hopeless = 1.5;
/// On more, cuts are looked for at the least period alone.
constexpr int k_many_ranks = 128;
/// Small steps from what was found.
constexpr int k_most_steps = 500;
/// Accuracy of the period that a cut is bisected to.
constexpr double k_tolerance = 0.004;

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

/// The best sketches so far.
class Shortlist {
 public:
  explicit Shortlist(std::size_t most) : most_(most) {}

  void add(std::vector<Sketch> sketches) {
    for (Sketch& sketch : sketches) {
      best_ = std::min(best_, sketch.objective);
      kept_.push_back(std::move(sketch));
    }
    if (kept_.size() > 4 * most_ + 64) shorten();
  }
  double best() const { return best_; }
  bool empty() const { return kept_.empty(); }
  std::vector<Sketch> take() {
    shorten();
    return std::move(kept_);
  }

 private:
  void shorten() {
    std::stable_sort(kept_.begin(), kept_.end(),
                     [](const Sketch& a, const Sketch& b) { return a.objective < b.objective; });
    const auto same = [](const Sketch& a, const Sketch& b) {
      return a.parts == b.parts && a.warmups == b.warmups;
    };
    kept_.erase(std::unique(kept_.begin(), kept_.end(), same), kept_.end());
    if (kept_.size() > most_) kept_.erase(kept_.begin() + static_cast<long>(most_), kept_.end());
  }

  std::size_t most_;
  double best_ = std::numeric_limits<double>::infinity();
  std::vector<Sketch> kept_;
};

/// Calls `visit` with every cut that the settings allow.
class AllCuts {
 public:
  AllCuts(const CostModel& costs, const Cutter& cutter, const CutSettings& settings,
          std::function<void(const Parts&)> visit)
      : layers_(costs.layers()),
        ranks_(costs.ranks()),
        cutter_(cutter),
        settings_(settings),
        visit_(std::move(visit)) {}

  void go(int layer = 0, int rank = 0) {
    const int stage = static_cast<int>(parts_.size());
    if (rank == ranks_ || layer == layers_) {
      const bool whole = rank == ranks_ && layer == layers_;
      if (whole && (settings_.stages == 0 || stage == settings_.stages)) visit_(parts_);
      return;
    }
    if (settings_.stages > 0 && stage == settings_.stages) return;
    const int most = settings_.replicas ? ranks_ - rank : 1;
    for (int replicas = 1; replicas <= most; ++replicas) {
      for (int last = layer; last < layers_; ++last) {
        if (!cutter_.allowed(stage, layer, last)) continue;
        parts_.push_back({layer, last, rank, replicas, false});
        go(last + 1, rank + replicas);
        parts_.pop_back();
      }
    }
  }

 private:
  int layers_, ranks_;
  const Cutter& cutter_;
  const CutSettings& settings_;
  std::function<void(const Parts&)> visit_;
  Parts parts_;
};

const Sketch* best_of(const std::vector<Sketch>& sketches) {
  const auto best =
      std::min_element(sketches.begin(), sketches.end(),
                       [](const Sketch& a, const Sketch& b) { return a.objective < b.objective; });
  return best == sketches.end() ? nullptr : &*best;
}

/// Takes the best step as long as one helps and the effort lasts.
void climb(const Estimator& estimator, const CutSettings& settings, const Cutter& cutter,
           Sketch from, int& effort, Shortlist& shortlist) {
  for (bool moved = true; moved && effort > 0;) {
    moved = false;
    Sketch best = from;
    for (const Parts& parts : neighbours(from.parts, settings)) {
      if (effort <= 0) break;
      if (!cutter.allowed(parts)) continue;
      --effort;
      if (estimator.least_period_s(parts) >= best.objective) continue;
      std::vector<Sketch> options = estimator.options(parts);
      if (const Sketch* option = best_of(options);
          option != nullptr && option->objective < best.objective * (1 - 1e-7)) {
        best = *option;
        moved = true;
      }
      shortlist.add(std::move(options));
    }
    from = std::move(best);
  }
}

/// Under several rules, and with some room above each one's least period.
std::vector<Parts> programmed_cuts(const Estimator& estimator, const CutSettings& settings,
                                   bool one_rule) {
  struct Way {
    CutRule rule;
    double gap;
  };
  std::vector<Way> ways = {{CutRule::stages, 1}};
  if (estimator.objective().communication) {
    ways.insert(ways.begin(), {{CutRule::cycle, 1}, {CutRule::cycle, 2}});
  }
  if (one_rule) ways.resize(1);
  std::vector<Parts> found;
  const auto add = [&](Parts parts) {
    if (std::find(found.begin(), found.end(), parts) == found.end()) {
      found.push_back(std::move(parts));
    }
  };
  for (const Way& way : ways) {
    CutSettings with = settings;
    with.rule = way.rule;
    with.gap = way.gap;
    Cutter cutter(estimator, with);
    auto best = cutter.best(k_tolerance);
    if (!best) continue;
    add(std::move(best->parts));
    for (const double room : {1.02, 1.06, 1.2}) {
      if (one_rule || estimator.costs().ranks() > k_many_ranks) break;
      if (auto parts = cutter.within(best->period_s * room)) add(std::move(*parts));
    }
  }
  if (settings.replicas && settings.stages <= 1 && settings.pins.empty()) {
    const CostModel& costs = estimator.costs();
    add({{0, costs.layers() - 1, 0, costs.ranks(), false}});
  }
  return found;
}

void add_programmed(const Estimator& cutting, const Estimator& estimator,
                    const CutSettings& settings, bool one_rule, Shortlist& shortlist) {
  for (const Parts& parts : programmed_cuts(cutting, settings, one_rule)) {
    shortlist.add(estimator.options(parts));
  }
}

}  // namespace

std::vector<Parts> neighbours(const Parts& parts, const CutSettings& settings) {
  std::vector<Parts> found;
  const auto stages = static_cast<int>(parts.size());
  for (int s = 0; s + 1 < stages; ++s) {
    const Part& left = parts[at(s)];
    const Part& right = parts[at(s + 1)];
    const auto with = [&](int layers, int ranks) {
      Parts moved = parts;
      moved[at(s)].last += layers;
      moved[at(s + 1)].first += layers;
      moved[at(s)].replicas += ranks;
      moved[at(s + 1)].begin += ranks;
      moved[at(s + 1)].replicas -= ranks;
      found.push_back(std::move(moved));
    };
    const int down = left.last > left.first ? -1 : 0;
    const int up = right.last > right.first ? 1 : 0;
    if (down != 0) with(down, 0);
    if (up != 0) with(up, 0);
    if (!settings.replicas) continue;
    for (int layers = down; layers <= up; ++layers) {
      if (left.replicas > 1) with(layers, -1);
      if (right.replicas > 1) with(layers, 1);
    }
    if (settings.stages == 0) {
      Parts merged = parts;
      merged[at(s)].last = right.last;
      merged[at(s)].replicas += right.replicas;
      merged.erase(merged.begin() + s + 1);
      found.push_back(std::move(merged));
    }
  }
  for (int s = 0; s < stages && settings.replicas && settings.stages == 0; ++s) {
    const Part& part = parts[at(s)];
    if (part.replicas == 1 || part.first == part.last) continue;
    for (const int replicas : {1, part.replicas / 2, part.replicas - 1}) {
      const int middle = part.first + (part.last - part.first + 1) * replicas / part.replicas - 1;
      Parts split = parts;
      Part behind = part;
      split[at(s)].last = std::clamp(middle, part.first, part.last - 1);
      split[at(s)].replicas = std::max(1, replicas);
      behind.first = split[at(s)].last + 1;
      behind.begin += split[at(s)].replicas;
      behind.replicas -= split[at(s)].replicas;
      split.insert(split.begin() + s + 1, behind);
      found.push_back(std::move(split));
    }
  }
  return found;
}

bool few_cuts(int layers, int ranks, bool replicas) {
  // (layers - 1 choose ranks - 1); with replicas all of fewer stages too, with their ranks.
  const int from = replicas ? layers + ranks - 2 : layers - 1;
  const int chosen = std::min(ranks - 1, from - ranks + 1);
  double count = 1;
  for (int k = 1; k <= chosen && count <= k_few_cuts; ++k) {
    count *= static_cast<double>(from - k + 1) / k;
  }
  return count <= k_few_cuts;
}

Leanest leanest_cut(const Estimator& estimator, const CutSettings& settings) {
  const CostModel& costs = estimator.costs();
  Leanest leanest;
  const auto look = [&](const Parts& parts) {
    const double bytes = estimator.least_memory_bytes(parts);
    if (bytes < leanest.bytes) leanest = {parts, bytes};
  };
  if (few_cuts(costs.layers(), costs.ranks(), settings.replicas)) {
    AllCuts(costs, Cutter(estimator, settings), settings, look).go();
    return leanest;
  }
  CutSettings any = settings;
  any.rule = CutRule::stages;
  const int last = costs.layers() - 1;
  const double unhurried_s = 1e3 * costs.work_s(0, last) + 1;
  // What the cutter knows of memory is less than what a plan takes.
  double low = 0;
  double high = costs.parameter_bytes(0, last) * (3 + costs.ranks()) + costs.state_bytes(0, last) +
                costs.kept_bytes(0, last) * (costs.ranks() + costs.microbatches()) + 1;
  for (int step = 0; step < 20; ++step) {
    Objective limited = estimator.objective();
    limited.memory_bytes = (low + high) / 2;
    const Estimator within(costs, limited);
    if (const auto parts = Cutter(within, any).within(unhurried_s)) {
      look(*parts);
      high = limited.memory_bytes;
    } else {
      low = limited.memory_bytes;
    }
  }
  return leanest;
}

std::vector<Sketch> candidates(const Estimator& estimator, const CutSettings& settings,
                               std::size_t most) {
  const CostModel& costs = estimator.costs();
  const Cutter cutter(estimator, settings);
  Shortlist shortlist(most);
  if (few_cuts(costs.layers(), costs.ranks(), settings.replicas)) {
    AllCuts(costs, cutter, settings, [&](const Parts& parts) {
      if (estimator.least_period_s(parts) > k_hopeless * shortlist.best()) return;
      shortlist.add(estimator.options(parts));
    }).go();
    return shortlist.take();
  }
  add_programmed(estimator, estimator, settings, false, shortlist);
  // The cutter knows a limit only in part: a stricter one may lead to more that fits.
  for (double part = 0.9; cutter.limited() && part > 0.3; part -= 0.1) {
    if (part < 0.65 && !shortlist.empty()) break;
    Objective strict = estimator.objective();
    strict.memory_bytes =
        part * std::min(strict.memory_bytes, costs.memory_bytes(0, costs.ranks()));
    add_programmed(Estimator(costs, strict), estimator, settings, true, shortlist);
  }
  if (shortlist.empty() && cutter.limited()) {
    const Leanest leanest = leanest_cut(estimator, settings);
    if (!leanest.parts.empty()) shortlist.add(estimator.options(leanest.parts));
  }
  const std::vector<Sketch> found = shortlist.take();
  const auto stages = found.empty() ? std::size_t{1} : found.front().parts.size();
  int effort = std::min(k_most_steps, static_cast<int>(150'000 / (stages * stages + 64)));
  for (std::size_t i = 0; i < found.size() && effort > 0; ++i) {
    if (i > 0 && found[i].parts == found[i - 1].parts) continue;
    climb(estimator, settings, cutter, found[i], effort, shortlist);
  }
  shortlist.add(found);
  return shortlist.take();
}

}  // namespace dynpipe::planner
