#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "interference/forest.hpp"

namespace dynpipe::interference {

/// What was measured on a rank, and what a stage then really took there.
struct Example {
  FeatureRow row{};
  float slowdown = 1;  ///< of the candidate, measured
  // Layer mixes, by number: of what ran when the row was measured, and of the candidate.
  int mix_now = 0, mix = 0;
  int cause = 0;  ///< what disturbed, by number; not for training
};

struct TrainingSettings {
  ForestKind kind = ForestKind::boosted;
  int rounds = 60, parallel_trees = 4;
  int depth = 5;
  double learning_rate = 0.1;
  double rows_share = 0.7;      ///< of the examples, for each tree
  double features_share = 0.4;  ///< for each node to choose from
  double least_leaf = 20;       ///< examples
  std::uint64_t seed = 1;
  int threads = 1;
};
/// As they are when nobody says otherwise.
TrainingSettings default_settings(ForestKind kind);

/// A forest grown on all of these (at least one). Its facts are those that follow from them: kind,
/// trees, ranges, importance, rows.
Forest train(std::span<const Example> examples, const TrainingSettings& settings);

/// What a forest said of an example that it had not seen.
struct HeldOut {
  std::size_t example = 0;
  double predicted = 1;
  double spread = 0;
};
/// For every mix: a forest grown on the examples that have nothing to do with it, asked about those
/// whose candidate is of it. Mixes without others to learn from are left out.
std::vector<HeldOut> hold_out_mixes(std::span<const Example> examples, int mixes,
                                    const TrainingSettings& settings);

/// Of those for which `counts`, which is asked with the example.
template <typename Counts>
Accuracy accuracy_of(std::span<const HeldOut> held_out, std::span<const Example> examples,
                     const Counts& counts);

/// The spread scale with which two of three of these relative errors are within the predicted.
double fit_spread_scale(std::span<const HeldOut> held_out, std::span<const Example> examples,
                        double label_noise);

/// Adds one prediction to a sum of errors; `finish` makes means of the sums.
void add_error(Accuracy& sums, double predicted, const Example& example);
Accuracy finish(Accuracy sums);

template <typename Counts>
Accuracy accuracy_of(std::span<const HeldOut> held_out, std::span<const Example> examples,
                     const Counts& counts) {
  Accuracy sums;
  for (const HeldOut& one : held_out) {
    const Example& example = examples[one.example];
    if (counts(example)) add_error(sums, one.predicted, example);
  }
  return finish(sums);
}

}  // namespace dynpipe::interference
