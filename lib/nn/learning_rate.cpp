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
  for (auto kind : {LearningRateKind::constant, LearningRateKind::step, LearningRateKind::cosine}) {
    if (name_of(kind) == name) return kind;
  }
  throw base::InputError("", "--lr-schedule",
                         fmt::format("'{}' is not known; known are constant, step, cosine", name));
}

std::string_view name_of(LearningRateKind kind) {
  switch (kind) {
    case LearningRateKind::constant:
      return "constant";
    case LearningRateKind::step:
      return "step";
    case LearningRateKind::cosine:
      return "cosine";
  }
  return "?";
}

}  // namespace dynpipe::nn
