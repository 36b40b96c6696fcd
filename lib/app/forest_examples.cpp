#include "app/forest_examples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "app/interval_environment.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

using interference::Environment;
using interference::Example;
using interference::StageFeatures;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Medians of each part of a stage's quiet slices, scaled to sum to the median of the whole.
std::vector<BoundSeconds> undisturbed(const ForestData& data) {
  std::vector<std::vector<const Measurement*>> quiet(data.stages.size());
  for (const Measurement& m : data.measurements) {
    if (m.disturbance == 0) quiet[static_cast<std::size_t>(m.stage)].push_back(&m);
  }
  std::vector<BoundSeconds> references;
  for (std::size_t s = 0; s < quiet.size(); ++s) {
    if (quiet[s].empty()) {
      throw base::InputError(
          data.name, "/measurements",
          fmt::format("none is of stage {} undisturbed: collect for longer", data.stages[s].name));
    }
    const auto of = [&](const auto& part) {
      std::vector<double> values;
      for (const Measurement* m : quiet[s]) values.push_back(part(*m));
      return median(std::move(values));
    };
    BoundSeconds r{of([](const Measurement& m) { return m.seconds.arithmetic; }),
                   of([](const Measurement& m) { return m.seconds.weights; }),
                   of([](const Measurement& m) { return m.seconds.activations; })};
    const double scale = of([](const Measurement& m) { return m.seconds.total(); }) / r.total();
    references.push_back({scale * r.arithmetic, scale * r.weights, scale * r.activations});
  }
  return references;
}

/// Slices, their stages and their references.
class Builder {
 public:
  explicit Builder(const ForestData& data) : data_(data), references_(undisturbed(data)) {
    result_.causes = data.disturbances;
    for (std::size_t s = 0; s < data.stages.size(); ++s) {
      const StageDescription& stage = data.stages[s];
      const BoundSeconds& r = references_[s];
      features_.push_back({stage.work, r.total(), stage.parameter_bytes, stage.activation_bytes,
                           r.weights / r.total(), r.activations / r.total()});
      auto mix = std::find(result_.mixes.begin(), result_.mixes.end(), stage.mix);
      mixes_.push_back(static_cast<int>(mix - result_.mixes.begin()));
      if (mix == result_.mixes.end()) result_.mixes.push_back(stage.mix);
    }
  }

  ForestExamples build() {
    std::map<double, std::vector<const Measurement*>> windows;
    for (const Measurement& m : data_.measurements) windows[m.window].push_back(&m);
    for (const auto& [window, slices] : windows) add_window(slices);
    if (disturbed_.count == 0) {
      throw base::InputError(data_.name, "/measurements",
                             "no stage ran twice while something disturbed it: collect for longer");
    }
    result_.label_noise = disturbed_.sum / disturbed_.count;
    result_.quiet_noise = quiet_.count > 0 ? quiet_.sum / quiet_.count : 0;
    return std::move(result_);
  }

 private:
  struct Differences {
    double sum = 0;
    int count = 0;
  };

  static std::size_t stage_of(const Measurement& m) { return static_cast<std::size_t>(m.stage); }

  double slowdown(const Measurement& m) const {
    return m.seconds.total() / references_[stage_of(m)].total();
  }

  Environment environment_of(const Measurement& m, bool by_bound) const {
    Environment environment;
    environment.stage = features_[stage_of(m)];
    environment.slowdown = slowdown(m);
    environment.slowdown_error = m.error;
    add_activity(environment, m.activity);
    const BoundSeconds& r = references_[stage_of(m)];
    const double memory = r.weights + r.activations;
    const double least = interference::k_least_share * r.total();
    if (by_bound && r.arithmetic > least) {
      environment.arithmetic_slowdown = m.seconds.arithmetic / r.arithmetic;
    }
    if (by_bound && memory > least) {
      environment.memory_slowdown = (m.seconds.weights + m.seconds.activations) / memory;
    }
    return environment;
  }

  void add_window(const std::vector<const Measurement*>& slices) {
    for (std::size_t i = 0; i < slices.size(); ++i) {
      for (std::size_t j = i + 1; j < slices.size(); ++j) {
        if (slices[i]->stage != slices[j]->stage) continue;
        Differences& noise = slices[i]->disturbance == 0 ? quiet_ : disturbed_;
        noise.sum += std::abs(slowdown(*slices[i]) / slowdown(*slices[j]) - 1);
        ++noise.count;
      }
      add_examples(*slices[i], slices);
    }
  }

  /// Of one slice, with every stage of its window.
  void add_examples(const Measurement& now, const std::vector<const Measurement*>& slices) {
    std::map<std::size_t, Differences> others;
    for (const Measurement* m : slices) {
      if (m == &now) continue;
      Differences& of_stage = others[stage_of(*m)];
      of_stage.sum += slowdown(*m);
      ++of_stage.count;
    }
    for (const auto& [stage, sum] : others) {
      Example example;
      example.row =
          features(environment_of(now, result_.examples.size() % 2 == 0), features_[stage]);
      example.slowdown = static_cast<float>(sum.sum / sum.count);
      example.mix_now = mixes_[stage_of(now)];
      example.mix = mixes_[stage];
      example.cause = static_cast<int>(now.disturbance);
      result_.examples.push_back(example);
    }
  }

  const ForestData& data_;
  std::vector<BoundSeconds> references_;
  std::vector<StageFeatures> features_;  ///< by stage
  std::vector<int> mixes_;               ///< by stage
  Differences disturbed_, quiet_;
  ForestExamples result_;
};

}  // namespace

ForestExamples examples_of(const ForestData& data) {
  return Builder(data).build();
}

}  // namespace dynpipe::app
