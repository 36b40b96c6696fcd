#pragma once

#include <cstdint>
#include <string_view>

namespace dynpipe::nn {

enum class LearningRateKind { constant, step, cosine };

/// Learning rate as a function of the number of the update alone, so that every stage, and a
/// resumed run, has the same.
struct LearningRate {
  LearningRateKind kind = LearningRateKind::constant;
  double base = 0.05;
  std::int64_t warmup_updates = 0;  ///< base (u + 1) / warmup_updates during the first ones
  std::int64_t total_updates = 1;   ///< `cosine`: reaches 0 there
  std::int64_t step_updates = 1;    ///< `step`: every so many updates ...
  double step_factor = 0.1;         ///< ... times this

  double at(std::int64_t update) const;
};

std::string_view name_of(LearningRateKind kind);
/// "constant", "step", "cosine". Throws InputError that lists them.
LearningRateKind learning_rate_named(std::string_view name);

}  // namespace dynpipe::nn
