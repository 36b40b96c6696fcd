#include "pipeline/layer_profiler.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
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

/// Forwards before the first backward, at most.
constexpr int k_most_ahead = 3;

/// Stages of about equal FLOPs.
std::vector<ProfilerRig::Range> cut(const LayerProfilerSetup& setup) {
  const std::vector<model::Layer>& layers = setup.model.layers;
  const nn::Chain whole(layers, tensor::Layout::plain, setup.samples.back(), setup.ops,
                        nn::layer_types());
  double total = 0;
  for (const model::Layer& layer : layers) total += static_cast<double>(layer.facts.forward_flops);
  std::vector<ProfilerRig::Range> ranges{{0, 0, 0}};
  double passed = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const double goal = total * static_cast<double>(ranges.size()) / setup.stages;
    const bool full = i > 0 && passed >= goal && static_cast<int>(ranges.size()) < setup.stages;
    if (full && !whole.joined(i)) ranges.push_back({i, i, 0});
    ranges.back().last = i;
    passed += static_cast<double>(layers[i].facts.forward_flops);
  }
  for (std::size_t s = 0; s < ranges.size(); ++s) {
    ranges[s].ahead = std::min(static_cast<int>(ranges.size() - 1 - s), k_most_ahead);
  }
  return ranges;
}

}  // namespace

/// What is known of one stage's microbatches of one size.
class LayerProfiler::Measurement {
 public:
  Measurement(ProfilerRig& rig, const LayerProfilerSetup& setup, std::int64_t n)
      : rig_(rig),
        clock_(setup.clock),
        n_(n),
        microbatches_(
            static_cast<int>(std::clamp<std::int64_t>(setup.batch / n, 1, k_most_microbatches))),
        chain_(rig.chain(n)) {}

  void run(double slice_s) {
    rig_.run_group(chain_, n_, std::min(microbatches_, 2), Backwards::whole);
    const double end_s = clock_.now_s() + slice_s;
    do {
      add_group(Backwards::whole);
      if (chain_.defers() && passes_s_.size() % k_split_every == 1) add_group(Backwards::split);
    } while (clock_.now_s() < end_s);
  }

  /// With whole backwards.
  std::size_t groups() const { return passes_s_.size(); }
  const Series& updates() const { return updates_; }
  /// Of a group's forwards and backwards.
  double median_s() const { return median(passes_s_); }
  double quartiles_s() const {
    std::vector<double> sorted = passes_s_;
    std::sort(sorted.begin(), sorted.end());
    return quantile(sorted, 0.75) - quantile(sorted, 0.25);
  }
  /// Of that median. Of a normal distribution: quartiles 1.349 deviations apart, the median's
  /// deviation sqrt(pi / 2) that of the mean.
  double standard_error_s() const {
    constexpr double k_quartiles = 1.349;
    constexpr double k_of_median = 1.2533;
    return k_of_median / k_quartiles * quartiles_s() /
           std::sqrt(static_cast<double>(passes_s_.size()));
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
      backwards_.add(times.backward, microbatches_);
      passes_s_.push_back(sum(times.forward) + sum(times.backward));
    } else {
      inputs_.add(times.backward_input, microbatches_);
      weights_.add(times.backward_weight, microbatches_);
    }
  }

  ProfilerRig& rig_;
  const base::Clock& clock_;
  std::int64_t n_;
  int microbatches_;
  nn::Chain chain_;
  Series forwards_, backwards_, inputs_, weights_, updates_;
  std::vector<double> passes_s_;
};

/// Some layers, and what is known of them by size.
struct LayerProfiler::Stage {
  Stage(const LayerProfilerSetup& setup, device::Stream& stream, const ProfilerRig::Range& range,
        tensor::Layout layout)
      : rig(setup, stream, range, layout) {
    for (const std::int64_t n : setup.samples) sizes.emplace_back(rig, setup, n);
  }

  ProfilerRig rig;
  std::deque<Measurement> sizes;
};

LayerProfiler::LayerProfiler(const LayerProfilerSetup& setup)
    : setup_(setup), stream_(setup.device.make_stream("profile")) {
  tensor::Layout layout = tensor::Layout::plain;
  for (const ProfilerRig::Range& range : cut(setup_)) {
    stages_.push_back(std::make_unique<Stage>(setup_, *stream_, range, layout));
    layout = stages_.back()->rig.chain(setup_.samples.back()).output_layout();
  }
  // What the stages hand each other in training.
  for (int kept = 0; kept < ProfilerRig::k_inputs; ++kept) {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const tensor::Tensor y = stages_[s]->rig.fill_forward(kept);
      if (s + 1 < stages_.size()) setup_.ops.reorder(*stream_, y, stages_[s + 1]->rig.input(kept));
    }
    for (std::size_t s = stages_.size(); s-- > 0;) {
      const tensor::Tensor dx = stages_[s]->rig.fill_backward(kept);
      if (s > 0) setup_.ops.reorder(*stream_, dx, stages_[s - 1]->rig.output_gradient(kept));
    }
  }
}

LayerProfiler::~LayerProfiler() = default;

void LayerProfiler::sweep(double slice_s) {
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    Stage& stage = *stages_[(s + static_cast<std::size_t>(setup_.first_stage)) % stages_.size()];
    for (Measurement& size : stage.sizes) size.run(slice_s);
  }
}

int LayerProfiler::stages() const {
  return static_cast<int>(stages_.size());
}

double LayerProfiler::uncertainty() const {
  double most = 0;
  for (std::size_t k = 0; k < setup_.samples.size(); ++k) {
    double squares = 0, total_s = 0;
    for (const auto& stage : stages_) {
      const Measurement& size = stage->sizes[k];
      if (size.groups() < k_least_groups) return 1;
      squares += std::pow(size.standard_error_s(), 2);
      total_s += size.median_s();
    }
    most = std::max(most, std::sqrt(squares) / total_s);
  }
  return most;
}

double LayerProfiler::spread() const {
  double most = 0;
  for (const auto& stage : stages_) {
    for (const Measurement& size : stage->sizes) {
      most = std::max(most, size.quartiles_s() / size.median_s());
    }
  }
  return most;
}

int LayerProfiler::groups() const {
  std::size_t least = stages_.front()->sizes.front().groups();
  for (const auto& stage : stages_) {
    for (const Measurement& size : stage->sizes) least = std::min(least, size.groups());
  }
  return static_cast<int>(least);
}

std::vector<model::LayerProfile> LayerProfiler::layers() const {
  std::vector<model::LayerProfile> all;
  for (const auto& stage : stages_) {
    std::vector<model::LayerProfile> layers = stage->rig.facts();
    Series updates;
    for (const Measurement& size : stage->sizes) {
      updates.add(size.updates());
      const std::vector<model::LayerTimes> times = size.times();
      for (std::size_t i = 0; i < layers.size(); ++i) layers[i].times.push_back(times[i]);
    }
    const LayerSeconds update = updates.medians();
    for (std::size_t i = 0; i < layers.size(); ++i) layers[i].update_s = update[i];
    all.insert(all.end(), layers.begin(), layers.end());
  }
  return all;
}

}  // namespace dynpipe::pipeline
