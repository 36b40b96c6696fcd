#include "interference/forest.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/errors.hpp"

namespace dynpipe::interference {
namespace {

/// A feature may pass what was seen by this share of what was seen.
constexpr float k_range_margin = 0.05F;

/// Values of each tree's nodes, as XGBoost writes them: a leaf's is where an inner node has its
/// threshold.
std::vector<std::vector<float>> leaf_values(const std::string& booster_json) {
  const nlohmann::json all = nlohmann::json::parse(booster_json);
  std::vector<std::vector<float>> values;
  for (const auto& tree : all.at("learner").at("gradient_booster").at("model").at("trees")) {
    values.push_back(tree.at("split_conditions").get<std::vector<float>>());
  }
  return values;
}

std::string_view bytes_of(const FeatureRow& row) {
  return {reinterpret_cast<const char*>(row.data()), sizeof(row)};
}

}  // namespace

std::string_view name_of(ForestKind kind) {
  return kind == ForestKind::random ? "random" : "boosted";
}

double Prediction::confidence() const {
  constexpr double k_near = 0.1;
  return error > 0 ? std::erf(k_near / error / std::sqrt(2.0)) : 1;
}

Forest::Forest(ForestFacts facts, Booster booster)
    : facts_(std::move(facts)),
      booster_(std::move(booster)),
      leaf_values_(leaf_values(booster_.json())) {
  const auto trees = static_cast<std::size_t>(facts_.rounds * facts_.parallel_trees);
  if (facts_.parallel_trees < 1 || leaf_values_.size() != trees) {
    throw base::InputError("", "trees", "are not as many as rounds and parallel_trees say");
  }
}

std::vector<Forest::Sum> Forest::sums(std::span<const FeatureRow> rows) const {
  const std::vector<std::int32_t> leaves = booster_.leaves(rows);
  const std::size_t trees = leaf_values_.size();
  const auto members = static_cast<std::size_t>(facts_.parallel_trees);
  std::vector<Sum> sums(rows.size());
  std::vector<double> of_member(members);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::fill(of_member.begin(), of_member.end(), 0);
    for (std::size_t tree = 0; tree < trees; ++tree) {
      const auto leaf = static_cast<std::size_t>(leaves[i * trees + tree]);
      // XGBoost has divided the leaves of a round by the number of its trees.
      of_member[tree % members] += static_cast<double>(members) * leaf_values_[tree][leaf];
    }
    double sum = 0, squares = 0;
    for (const double value : of_member) sum += value;
    sums[i].mean = sum / static_cast<double>(members);
    for (const double value : of_member) squares += (value - sums[i].mean) * (value - sums[i].mean);
    sums[i].spread = std::sqrt(squares / static_cast<double>(members));
  }
  return sums;
}

std::vector<Prediction> Forest::predict(std::span<const FeatureRow> rows) const {
  std::unordered_map<std::string_view, std::size_t> places;
  std::vector<std::size_t> place_of(rows.size());
  std::vector<FeatureRow> unique;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto [place, is_new] = places.try_emplace(bytes_of(rows[i]), unique.size());
    if (is_new) unique.push_back(rows[i]);
    place_of[i] = place->second;
  }
  const std::vector<Sum> sums = this->sums(unique);
  std::vector<Prediction> of_unique(unique.size());
  for (std::size_t i = 0; i < unique.size(); ++i) {
    Prediction& prediction = of_unique[i];
    prediction.slowdown = std::max(1.0, std::exp2(unique[i].front() + sums[i].mean));
    prediction.error = std::hypot(facts_.label_noise, facts_.spread_scale * sums[i].spread);
    prediction.in_range = outside(unique[i]).empty();
  }
  std::vector<Prediction> predictions;
  for (const std::size_t place : place_of) predictions.push_back(of_unique[place]);
  return predictions;
}

std::vector<double> Forest::spreads(std::span<const FeatureRow> rows) const {
  std::vector<double> spreads;
  for (const Sum& sum : sums(rows)) spreads.push_back(sum.spread);
  return spreads;
}

std::vector<std::size_t> Forest::outside(const FeatureRow& row) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < k_features; ++i) {
    const FeatureRange& range = facts_.ranges[i];
    const float margin = k_range_margin * (range.high - range.low);
    const bool inside = base::is_known(row[i])
                            ? row[i] >= range.low - margin && row[i] <= range.high + margin
                            : range.unknown;
    if (!inside) found.push_back(i);
  }
  return found;
}

std::vector<float> Forest::contributions(const FeatureRow& row) const {
  return booster_.contributions(std::span(&row, 1));
}

std::array<double, k_features> Forest::importance_on(std::span<const FeatureRow> rows) const {
  const std::vector<float> parts = booster_.contributions(rows);
  std::array<double, k_features> importance{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t f = 0; f < k_features; ++f) {
      importance[f] += std::abs(parts[i * (k_features + 1) + f]) / static_cast<double>(rows.size());
    }
  }
  return importance;
}

}  // namespace dynpipe::interference
