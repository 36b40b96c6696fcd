#include "pipeline/layer_profiler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "pipeline/profiler_rig.hpp"

namespace dynpipe::pipeline {
namespace {

/// A group's mean need not be over more microbatches than this.
constexpr int k_most_microbatches = 8;
/// One of so many groups runs its backwards in two parts.
constexpr int k_split_every = 4;
constexpr std::size_t k_least_groups = 5;

/// Of a sorted list, between two of its values where need be; `share` in [0, 1].
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

/// Distance of the quartiles, relative to the median.
double relative_spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (quantile(values, 0.75) - quantile(values, 0.25)) / quantile(values, 0.5);
}

double sum(const LayerSeconds& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

/// Of one step, group by group: seconds of a microbatch, or of an update.
class Series {
 public:
  void add(const LayerSeconds& seconds, int microbatches) {
    LayerSeconds each = seconds;
    for (double& s : each) s /= microbatches;
    groups_.push_back(std::move(each));
  }
  void add(const Series& other) {
    groups_.insert(groups_.end(), other.groups_.begin(), other.groups_.end());
  }
  bool empty() const { return groups_.empty(); }
  std::vector<double> totals() const {
    std::vector<double> totals;
    for (const LayerSeconds& group : groups_) totals.push_back(sum(group));
    return totals;
  }
  /// By layer, scaled so that they sum to the median of the totals.
  LayerSeconds medians() const {
    LayerSeconds result(groups_.front().size());
    for (std::size_t i = 0; i < result.size(); ++i) {
      std::vector<double> of_layer;
      for (const LayerSeconds& group : groups_) of_layer.push_back(group[i]);
      result[i] = median(std::move(of_layer));
    }
    const double scale = sum(result) > 0 ? median(totals()) / sum(result) : 1;
    for (double& seconds : result) seconds *= scale;
    return result;
  }

 private:
  std::vector<LayerSeconds> groups_;
};

}  // namespace

class LayerProfiler::Rig : public ProfilerRig {
 public:
  explicit Rig(const LayerProfilerSetup& setup) : ProfilerRig(setup), clock_(setup.clock) {}
  const base::Clock& clock() const { return clock_; }

 private:
  const base::Clock& clock_;
};

/// What is known of one microbatch size.
class LayerProfiler::Size {
 public:
  Size(Rig& rig, std::int64_t n, std::int64_t batch)
      : rig_(rig),
        n_(n),
        microbatches_(
            static_cast<int>(std::clamp<std::int64_t>(batch / n, 1, k_most_microbatches))),
        chain_(rig.chain(n)) {}

  void run(double slice_s) {
    rig_.run_group(chain_, n_, std::min(microbatches_, 2), Backwards::whole);
    const double end_s = rig_.clock().now_s() + slice_s;
    do {
      add_group(Backwards::whole);
      if (chain_.defers() && whole_ % k_split_every == 1) add_group(Backwards::split);
    } while (rig_.clock().now_s() < end_s);
  }

  std::size_t groups() const { return whole_; }
  const Series& updates() const { return updates_; }
  double spread() const { return relative_spread(passes()); }

  double uncertainty() const {
    if (whole_ < k_least_groups) return 1;
    // Of a normal distribution: quartiles 1.349 deviations apart, the median's deviation
    // sqrt(pi / 2) that of the mean.
    constexpr double k_quartiles = 1.349;
    constexpr double k_of_median = 1.2533;
    return k_of_median / k_quartiles * spread() / std::sqrt(static_cast<double>(whole_));
  }

  std::vector<model::LayerTimes> times() const {
    const LayerSeconds forward = forwards_.medians();
    const LayerSeconds backward = backwards_.medians();
    const LayerSeconds none(forward.size());
    const LayerSeconds input = inputs_.empty() ? none : inputs_.medians();
    const LayerSeconds weight = weights_.empty() ? none : weights_.medians();
    std::vector<model::LayerTimes> times;
    for (std::size_t i = 0; i < forward.size(); ++i) {
      const double parts = input[i] + weight[i];
      const double share = parts > 0 ? weight[i] / parts : 0;
      times.push_back({forward[i], backward[i] * (1 - share), backward[i] * share});
    }
    return times;
  }

 private:
  void add_group(Backwards backwards) {
    const GroupSeconds times = rig_.run_group(chain_, n_, microbatches_, backwards);
    updates_.add(times.update, 1);
    forwards_.add(times.forward, microbatches_);
    if (backwards == Backwards::whole) {
      ++whole_;
      backwards_.add(times.backward, microbatches_);
      passes_.push_back(sum(times.forward) + sum(times.backward));
    } else {
      inputs_.add(times.backward_input, microbatches_);
      weights_.add(times.backward_weight, microbatches_);
    }
  }
  const std::vector<double>& passes() const { return passes_; }

  Rig& rig_;
  std::int64_t n_;
  int microbatches_;
  nn::Chain chain_;
  std::size_t whole_ = 0;  ///< groups with whole backwards
  Series forwards_, backwards_, inputs_, weights_, updates_;
  std::vector<double> passes_;
};

LayerProfiler::LayerProfiler(const LayerProfilerSetup& setup) : rig_(std::make_unique<Rig>(setup)) {
  for (const std::int64_t n : setup.samples) {
    sizes_.push_back(std::make_unique<Size>(*rig_, n, setup.batch));
  }
}

LayerProfiler::~LayerProfiler() = default;

void LayerProfiler::sweep(double slice_s) {
  for (const auto& size : sizes_) size->run(slice_s);
}

double LayerProfiler::uncertainty() const {
  double most = 0;
  for (const auto& size : sizes_) most = std::max(most, size->uncertainty());
  return most;
}

double LayerProfiler::spread() const {
  double most = 0;
  for (const auto& size : sizes_) most = std::max(most, size->spread());
  return most;
}

int LayerProfiler::groups() const {
  std::size_t least = sizes_.front()->groups();
  for (const auto& size : sizes_) least = std::min(least, size->groups());
  return static_cast<int>(least);
}

std::vector<model::LayerProfile> LayerProfiler::layers() const {
  std::vector<model::LayerProfile> layers = rig_->facts();
  Series updates;
  for (const auto& size : sizes_) {
    updates.add(size->updates());
    const std::vector<model::LayerTimes> times = size->times();
    for (std::size_t i = 0; i < layers.size(); ++i) layers[i].times.push_back(times[i]);
  }
  const LayerSeconds update = updates.medians();
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].update_s = update[i];
  return layers;
}

}  // namespace dynpipe::pipeline
