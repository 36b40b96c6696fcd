#include "interference/forest_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace dynpipe::interference {
namespace {

/// Rows on which importance is measured, evenly spread.
constexpr std::size_t k_importance_rows = 500;

Booster::Parameters parameters_of(const TrainingSettings& settings) {
  const bool random = settings.kind == ForestKind::random;
  const auto text = [](auto value) { return fmt::format("{}", value); };
  return {{"nthread", text(settings.threads)},
          {"seed", text(settings.seed)},
          {"objective", "reg:squarederror"},
          {"base_score", "0"},
          {"tree_method", "hist"},
          {"num_parallel_tree", text(settings.parallel_trees)},
          {"eta", random ? "1" : text(settings.learning_rate)},
          {"lambda", random ? "0" : "1"},
          {"max_depth", text(settings.depth)},
          {"subsample", text(settings.rows_share)},
          {"colsample_bynode", text(settings.features_share)},
          {"min_child_weight", text(settings.least_leaf)}};
}

std::array<FeatureRange, k_features> ranges_of(std::span<const Example> examples) {
  std::array<FeatureRange, k_features> ranges;
  for (std::size_t f = 0; f < k_features; ++f) {
    float low = std::numeric_limits<float>::max(), high = std::numeric_limits<float>::lowest();
    for (const Example& example : examples) {
      const float value = example.row[f];
      if (!base::is_known(value)) {
        ranges[f].unknown = true;
        continue;
      }
      low = std::min(low, value);
      high = std::max(high, value);
    }
    if (low <= high) {
      ranges[f].low = low;
      ranges[f].high = high;
    }
  }
  return ranges;
}

std::vector<FeatureRow> some_rows(std::span<const Example> examples) {
  const std::size_t step = std::max<std::size_t>(1, examples.size() / k_importance_rows);
  std::vector<FeatureRow> rows;
  for (std::size_t i = 0; i < examples.size(); i += step) rows.push_back(examples[i].row);
  return rows;
}

}  // namespace

TrainingSettings default_settings(ForestKind kind) {
  TrainingSettings settings;
  settings.kind = kind;
  if (kind == ForestKind::random) {
    settings.rounds = 1;
    settings.parallel_trees = 100;
    settings.depth = 8;
    settings.rows_share = 0.8;
  }
  return settings;
}

Forest train(std::span<const Example> examples, const TrainingSettings& settings) {
  std::vector<FeatureRow> rows;
  std::vector<float> labels;
  for (const Example& example : examples) {
    rows.push_back(example.row);
    labels.push_back(std::log2(example.slowdown) - example.row.front());
  }
  ForestFacts facts;
  facts.kind = settings.kind;
  facts.rounds = settings.rounds;
  facts.parallel_trees = settings.parallel_trees;
  facts.ranges = ranges_of(examples);
  facts.rows = static_cast<std::int64_t>(examples.size());
  Forest forest(facts, Booster::grow(rows, labels, parameters_of(settings), settings.rounds));
  facts.importance = forest.importance_on(some_rows(examples));
  forest.set_facts(std::move(facts));
  return forest;
}

std::vector<HeldOut> hold_out_mixes(std::span<const Example> examples, int mixes,
                                    const TrainingSettings& settings) {
  std::vector<HeldOut> held_out;
  for (int mix = 0; mix < mixes; ++mix) {
    std::vector<Example> known;
    std::vector<std::size_t> asked;
    std::vector<FeatureRow> rows;
    for (std::size_t i = 0; i < examples.size(); ++i) {
      const Example& example = examples[i];
      if (example.mix != mix && example.mix_now != mix) known.push_back(example);
      if (example.mix != mix) continue;
      asked.push_back(i);
      rows.push_back(example.row);
    }
    if (known.empty() || asked.empty()) continue;
    const Forest forest = train(known, settings);
    const std::vector<Prediction> predictions = forest.predict(rows);
    const std::vector<double> spreads = forest.spreads(rows);
    for (std::size_t i = 0; i < asked.size(); ++i) {
      held_out.push_back({asked[i], predictions[i].slowdown, spreads[i]});
    }
  }
  return held_out;
}

double fit_spread_scale(std::span<const HeldOut> held_out, std::span<const Example> examples,
                        double label_noise) {
  // What scale would make each error just the predicted one; the two-thirds quantile of them.
  constexpr double k_share = 0.68, k_least_spread = 1e-6;
  std::vector<double> scales;
  for (const HeldOut& one : held_out) {
    const double error = std::abs(one.predicted / examples[one.example].slowdown - 1);
    const double beyond = std::sqrt(std::max(0.0, error * error - label_noise * label_noise));
    scales.push_back(beyond / std::max(one.spread, k_least_spread));
  }
  if (scales.empty()) return 1;
  const auto at = static_cast<std::ptrdiff_t>(k_share * static_cast<double>(scales.size() - 1));
  std::nth_element(scales.begin(), scales.begin() + at, scales.end());
  return scales[static_cast<std::size_t>(at)];
}

void add_error(Accuracy& sums, double predicted, const Example& example) {
  const double truth = example.slowdown;
  const double measured = std::max(1.0, static_cast<double>(std::exp2(example.row.front())));
  ++sums.rows;
  sums.mae += std::abs(predicted - truth);
  sums.relative += std::abs(predicted / truth - 1);
  sums.measured_mae += std::abs(measured - truth);
  sums.measured_relative += std::abs(measured / truth - 1);
}

Accuracy finish(Accuracy sums) {
  if (sums.rows == 0) return sums;
  for (double* sum : {&sums.mae, &sums.relative, &sums.measured_mae, &sums.measured_relative}) {
    *sum /= static_cast<double>(sums.rows);
  }
  return sums;
}

}  // namespace dynpipe::interference
