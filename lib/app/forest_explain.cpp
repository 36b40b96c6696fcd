#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "app/forest_commands.hpp"
#include "app/forest_examples.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

using interference::FeatureRow;
using interference::Forest;

std::vector<std::size_t> by_size(std::span<const double> sizes) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(sizes[a]) > std::abs(sizes[b]);
  });
  return order;
}

std::string facts_text(const std::string& file, const Forest& forest) {
  const interference::ForestFacts& facts = forest.facts();
  return fmt::format(
      "{}: {} forest, {} x {} trees, grown on {} examples of {}\n"
      "measured on {}\n"
      "held-out MAE {:.3f} (measured slowdown alone: {:.3f}), label noise {:.1f} %\n",
      file, name_of(facts.kind), facts.rounds, facts.parallel_trees, facts.rows, facts.data,
      facts.machine, facts.held_out.mae, facts.held_out.measured_mae, 100 * facts.label_noise);
}

std::string importance_text(const Forest& forest) {
  const auto& importance = forest.facts().importance;
  const double total = std::accumulate(importance.begin(), importance.end(), 0.0);
  std::string text =
      fmt::format("\n{:<18} {:>10}  {:<13} {}\n", "feature", "importance", "unit", "meaning");
  for (const std::size_t f : by_size(importance)) {
    const auto& info = interference::feature_table()[f];
    const double share = total > 0 ? 100 * importance[f] / total : 0;
    text +=
        fmt::format("{:<18} {:>8.1f} %  {:<13} {}\n", info.name, share, info.unit, info.meaning);
  }
  return text;
}

/// Half of the time another task has the core, and the candidate is bound by memory where what runs
/// now is bound by arithmetic.
FeatureRow made_up() {
  constexpr double k_million = 1e6, k_seconds = 2e-3;
  interference::Environment environment;
  environment.slowdown = 2.2;
  environment.run_wait_share = 0.5;
  environment.throttled_share = environment.stolen_share = 0;
  environment.switches_per_s = 250;
  environment.stage = {
      {100 * k_million, k_million, 3 * k_million}, k_seconds, 0.3 * k_million, k_million, 0, 0.2};
  interference::StageFeatures candidate = environment.stage;
  candidate.work = {4 * k_million, 0.01 * k_million, 12 * k_million};
  candidate.activation_bytes = 4 * k_million;
  candidate.activations_share = 1;
  return features(environment, candidate);
}

std::string prediction_text(const Forest& forest, const FeatureRow& row) {
  const interference::Prediction prediction = forest.predict(row);
  const double measured = std::exp2(row.front());
  std::string text = fmt::format(
      "The rank was measured to be {:.2f} times slower than undisturbed; the candidate is\n"
      "predicted to take {:.2f} times as long as undisturbed, +- {:.0f} % ({:.0f} % sure to be\n"
      "within a tenth){}.\n\nFrom the one to the other:\n",
      measured, prediction.slowdown, 100 * prediction.error, 100 * prediction.confidence(),
      prediction.in_range ? "" : ", OUT OF THE RANGE of what the forest knows");
  const std::vector<float> parts = forest.contributions(row);
  const std::vector<double> sizes(parts.begin(), parts.begin() + interference::k_features);
  constexpr double k_tells = 0.005;
  double rest = parts.back();
  for (const std::size_t f : by_size(sizes)) {
    if (std::abs(sizes[f]) < k_tells) {
      rest += sizes[f];
      continue;
    }
    const auto& info = interference::feature_table()[f];
    const std::string value =
        base::is_known(row[f]) ? fmt::format("{:.2f} {}", row[f], info.unit) : "unknown";
    text += fmt::format("  x {:.3f}  {} is {} ({})\n", std::exp2(sizes[f]), info.name, value,
                        info.meaning);
  }
  text += fmt::format("  x {:.3f}  all others\n", std::exp2(rest));
  for (const std::size_t f : forest.outside(row)) {
    const auto& range = forest.facts().ranges[f];
    text += fmt::format("out of range: {} is {:.2f}, known are {:.2f} to {:.2f}\n",
                        interference::feature_table()[f].name, row[f], range.low, range.high);
  }
  return text;
}

std::string example_text(const Forest& forest, const ExplainOptions& options) {
  const ForestExamples data = examples_of(read_forest_data(options.data));
  const auto last = static_cast<std::int64_t>(data.examples.size()) - 1;
  const std::int64_t number = options.example.value_or(last / 2);
  if (number > last) {
    throw base::InputError("", "--example", fmt::format("is {}, the last one is {}", number, last));
  }
  const interference::Example& example = data.examples[static_cast<std::size_t>(number)];
  return fmt::format("\nExample {} of {}: disturbed by {}, from {} to {} layers, really {:.2f}.\n",
                     number, options.data, data.causes[static_cast<std::size_t>(example.cause)],
                     data.mixes[static_cast<std::size_t>(example.mix_now)],
                     data.mixes[static_cast<std::size_t>(example.mix)], example.slowdown) +
         prediction_text(forest, example.row);
}

}  // namespace

std::string explain_forest(const ExplainOptions& options) {
  const Forest forest = load_forest(options.forest);
  std::string text = facts_text(options.forest, forest) + importance_text(forest);
  if (!options.data.empty()) return text + example_text(forest, options);
  return text + "\nA made-up case: another task has the core half of the time.\n" +
         prediction_text(forest, made_up());
}

}  // namespace dynpipe::app
