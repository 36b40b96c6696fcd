#include "nn/learning_rate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/errors.hpp"

namespace dynpipe::nn {

double LearningRate::at(std::int64_t update) const {
  if (update < warmup_updates) {
    return base * static_cast<double>(update + 1) / static_cast<double>(warmup_updates);
  }
  switch (kind) {
    case LearningRateKind::constant:
      return base;
    case LearningRateKind::step:
      return base * std::pow(step_factor, static_cast<double>(update / step_updates));
    case LearningRateKind::cosine:
      break;
  }
  const auto done = static_cast<double>(update - warmup_updates);
  const auto all = static_cast<double>(std::max<std::int64_t>(1, total_updates - warmup_updates));
  return base * 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(1.0, done / all)));
}

LearningRateKind learning_rate_named(std::string_view name) {
  if (name == "constant") return LearningRateKind::constant;
  if (name == "step") return LearningRateKind::step;
  if (name == "cosine") return LearningRateKind::cosine;
  throw base::InputError("", "--lr-schedule",
                         fmt::format("'{}' is not known; known are constant, step, cosine", name));
}

}  // namespace dynpipe::nn
