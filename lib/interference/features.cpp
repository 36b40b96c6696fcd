#include "interference/features.hpp"

#include <algorithm>
#include <cmath>

namespace dynpipe::interference {
namespace {

constexpr std::array<FeatureInfo, k_features> k_table = {{
    {"slowdown", "log2", "measured of what the rank runs now"},
    {"run_wait", "log2", "of that, by waiting for the core: 1 / (1 - share)"},
    {"throttled", "log2", "by its control group's quota"},
    {"stolen", "log2", "by the host of the virtual machine"},
    {"switches", "log2 1/s", "1 + involuntary switches a second on the core"},
    {"core_slowdown", "log2", "slowdown without waiting, quota and steal"},
    {"arithmetic_excess", "log2", "slowdown of layers bound by arithmetic over that of all"},
    {"memory_excess", "log2", "slowdown of layers bound by memory over that of all"},
    {"now_intensity", "log2 FLOP/B", "what runs now: operations for each byte"},
    {"now_flop_rate", "log2 GFLOP/s", "what runs now, undisturbed"},
    {"now_byte_rate", "log2 GB/s", "what runs now, undisturbed"},
    {"now_working_set", "log2 MiB", "what runs now: weights, gradients, what is kept"},
    {"now_weights", "share", "what runs now: time of layers bound by weights"},
    {"now_activations", "share", "what runs now: time of layers bound by activations"},
    {"intensity", "log2 FLOP/B", "the candidate: operations for each byte"},
    {"flop_rate", "log2 GFLOP/s", "the candidate, undisturbed"},
    {"byte_rate", "log2 GB/s", "the candidate, undisturbed"},
    {"working_set", "log2 MiB", "the candidate: weights, gradients, what is kept"},
    {"weights", "share", "the candidate: time of layers bound by weights"},
    {"activations", "share", "the candidate: time of layers bound by activations"},
    {"more_intensity", "log2", "candidate over what runs now"},
    {"more_flop_rate", "log2", "candidate over what runs now"},
    {"more_byte_rate", "log2", "candidate over what runs now"},
    {"more_working_set", "log2", "candidate over what runs now"},
}};

double log2_of(double value) {
  constexpr double k_least = 1e-9;
  return base::is_known(value) ? std::log2(std::max(value, k_least)) : value;
}

/// Unknown stays unknown, other than in `stretch`.
double log_stretch(double share) {
  return base::is_known(share) ? std::log2(stretch(share)) : share;
}

struct StageRow {
  double intensity, flop_rate, byte_rate, working_set, weights, activations;
};

StageRow row_of(const StageFeatures& stage) {
  const double seconds = std::max(stage.seconds, 1e-9), bytes = std::max(stage.work.bytes(), 1.0);
  return {log2_of(stage.work.flops / bytes),
          log2_of(1e-9 * stage.work.flops / seconds),
          log2_of(1e-9 * stage.work.bytes() / seconds),
          log2_of(stage.working_set_bytes() / (1 << 20)),
          stage.weights_share,
          stage.activations_share};
}

}  // namespace

std::span<const FeatureInfo, k_features> feature_table() {
  return k_table;
}

FeatureRow features(const Environment& environment, const StageFeatures& candidate) {
  const StageRow now = row_of(environment.stage), then = row_of(candidate);
  const double slowdown = log2_of(environment.slowdown);
  const double row[k_features] = {slowdown,
                                  log_stretch(environment.run_wait_share),
                                  log_stretch(environment.throttled_share),
                                  log_stretch(environment.stolen_share),
                                  log2_of(1 + environment.switches_per_s),
                                  log2_of(core_slowdown(environment)),
                                  log2_of(environment.arithmetic_slowdown) - slowdown,
                                  log2_of(environment.memory_slowdown) - slowdown,
                                  now.intensity,
                                  now.flop_rate,
                                  now.byte_rate,
                                  now.working_set,
                                  now.weights,
                                  now.activations,
                                  then.intensity,
                                  then.flop_rate,
                                  then.byte_rate,
                                  then.working_set,
                                  then.weights,
                                  then.activations,
                                  then.intensity - now.intensity,
                                  then.flop_rate - now.flop_rate,
                                  then.byte_rate - now.byte_rate,
                                  then.working_set - now.working_set};
  FeatureRow result;
  std::transform(std::begin(row), std::end(row), result.begin(),
                 [](double figure) { return static_cast<float>(figure); });
  return result;
}

}  // namespace dynpipe::interference
