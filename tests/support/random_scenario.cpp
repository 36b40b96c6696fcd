#include "support/random_scenario.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/random.hpp"
#include "nn/layer.hpp"
#include "nn/parameters.hpp"

namespace dynpipe::testing {
namespace {

constexpr const char* k_small_model = R"({
  "name": "small", "input": [1, 6, 6], "loss": "softmax_cross_entropy",
  "layers": [
    {"name": "conv1", "type": "conv2d", "out_channels": 3, "kernel": 3, "padding": 1},
    {"name": "bn1", "type": "batchnorm2d"},
    {"name": "relu1", "type": "relu"},
    {"name": "block", "type": "residual",
     "body": [
       {"name": "conv1", "type": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1, "stride": 2, "bias": false},
       {"name": "bn1", "type": "batchnorm2d"},
       {"name": "relu1", "type": "relu"},
       {"name": "conv2", "type": "conv2d", "out_channels": 4, "kernel": 3, "padding": 1, "bias": false},
       {"name": "bn2", "type": "batchnorm2d"}],
     "shortcut": [
       {"name": "conv", "type": "conv2d", "out_channels": 4, "kernel": 1, "stride": 2}]},
    {"name": "relu2", "type": "relu"},
    {"name": "pool", "type": "maxpool", "kernel": 2, "stride": 1},
    {"name": "flatten", "type": "flatten"},
    {"name": "fc1", "type": "linear", "out_features": 6},
    {"name": "dropout", "type": "dropout", "p": 0.25},
    {"name": "fc2", "type": "linear", "out_features": 3}]})";

constexpr const char* k_plain_model = R"({
  "name": "plain", "input": [2, 5, 4], "loss": "softmax_cross_entropy",
  "layers": [
    {"name": "conv1", "type": "conv2d", "out_channels": 2, "kernel": [3, 2], "padding": [1, 0]},
    {"name": "relu1", "type": "relu"},
    {"name": "conv2", "type": "conv2d", "out_channels": 3, "kernel": 3, "padding": 1},
    {"name": "relu2", "type": "relu"},
    {"name": "pool", "type": "avgpool", "kernel": 2, "stride": 1},
    {"name": "flatten", "type": "flatten"},
    {"name": "fc1", "type": "linear", "out_features": 5},
    {"name": "relu3", "type": "relu"},
    {"name": "fc2", "type": "linear", "out_features": 5, "bias": false},
    {"name": "relu4", "type": "relu"},
    {"name": "fc3", "type": "linear", "out_features": 4}]})";

/// Numbers drawn one after another.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed, "scenario") {}
  /// Uniform in [low, high].
  int between(int low, int high) {
    return low +
           static_cast<int>(random_.below(draws_++, static_cast<std::uint64_t>(high - low + 1)));
  }
  bool one_in(int n) { return between(1, n) == 1; }

 private:
  base::Philox random_;
  std::uint64_t draws_ = 0;
};

std::vector<int> random_cuts(Dice& dice, int layers, int stages) {
  std::vector<int> ends;
  for (int i = 0; i < layers - 1; ++i) ends.push_back(i);
  while (static_cast<int>(ends.size()) > stages - 1) {
    ends.erase(ends.begin() + dice.between(0, static_cast<int>(ends.size()) - 1));
  }
  ends.push_back(layers - 1);
  return ends;
}

}  // namespace

model::Model small_model() {
  return model::parse_model(k_small_model, "small.json", nn::layer_types());
}

model::Model plain_model() {
  return model::parse_model(k_plain_model, "plain.json", nn::layer_types());
}

plan::Plan random_plan(const model::Model& model, std::uint64_t seed, const PlanLimits& limits) {
  Dice dice(seed);
  plan::Plan plan;
  plan.schedule = static_cast<plan::Schedule>(dice.one_in(2) ? 3 : dice.between(0, 2));
  plan.policy = static_cast<plan::WeightPolicy>(dice.between(0, 1));
  plan.microbatches = dice.between(1, limits.microbatches);
  const int stages = dice.between(1, std::min({limits.stages, limits.ranks, model.size()}));
  const std::vector<int> ends = random_cuts(dice, model.size(), stages);

  std::vector<int> ranks(static_cast<std::size_t>(limits.ranks));
  int used = 0;
  int first = 0;
  for (int s = 0; s < stages; ++s) {
    plan::Stage stage;
    stage.first = first;
    stage.last = ends[static_cast<std::size_t>(s)];
    first = stage.last + 1;
    const int spare = limits.ranks - used - (stages - s);
    const int replicas = 1 + (dice.one_in(2) ? dice.between(0, std::min(2, spare)) : 0);
    for (int r = 0; r < replicas; ++r) stage.ranks.push_back(used++);
    for (int j = 0; j < plan.microbatches; ++j) {
      stage.owners.push_back(dice.between(0, replicas - 1));
    }
    plan.stages.push_back(std::move(stage));
  }
  // Any rank may hold any stage: shuffle the numbers.
  for (int i = 0; i < used; ++i) ranks[static_cast<std::size_t>(i)] = i;
  for (int i = used - 1; i > 0; --i) {
    std::swap(ranks[static_cast<std::size_t>(i)],
              ranks[static_cast<std::size_t>(dice.between(0, i))]);
  }
  int warmup = dice.one_in(3) ? dice.between(0, 3) : 0;
  for (int s = stages - 1; s >= 0; --s) {
    plan::Stage& stage = plan.stages[static_cast<std::size_t>(s)];
    for (int& rank : stage.ranks) rank = ranks[static_cast<std::size_t>(rank)];
    warmup = std::max(warmup, stages - 1 - s);
    stage.warmup = warmup;
    warmup += dice.one_in(2) ? 1 : dice.between(0, 6);
  }
  for (plan::Stage& stage : plan.stages) stage.recompute = dice.one_in(4);
  return plan;
}

Scenario random_scenario(std::uint64_t seed, const PlanLimits& limits) {
  Dice dice(seed + 7'000'000);
  Scenario scenario;
  scenario.model = dice.one_in(2) ? small_model() : plain_model();
  scenario.plan = random_plan(scenario.model, seed, limits);
  scenario.seed = seed;
  scenario.samples = random_samples(scenario.model.input, scenario.model.classes, 13, seed);
  const int kinds = dice.between(1, 4);
  for (int i = 0; i < kinds; ++i) scenario.group_sizes.push_back(dice.between(1, 12));
  scenario.optimizer.kind = static_cast<nn::OptimizerKind>(dice.between(0, 3));
  scenario.optimizer.momentum = dice.one_in(3) ? 0.0 : 0.9;
  scenario.optimizer.nesterov = scenario.optimizer.momentum > 0 && dice.one_in(2);
  scenario.optimizer.weight_decay = dice.one_in(2) ? 0.0 : 1e-3;
  // Adam divides by a root of squares near zero: with PyTorch's 1e-8 it would turn rounding of sums
  // in another order into whole steps.
  scenario.optimizer.epsilon = 1e-3;
  scenario.learning_rate = {nn::LearningRateKind::cosine, 0.01, 3, 20, 1, 0.1};
  scenario.initial = nn::initial_state(scenario.model.layers, seed);
  if (dice.one_in(3)) {
    const int first = dice.between(1, 10);
    scenario.drains = {first, first + dice.between(1, 9)};
  }
  scenario.optimizer.decay_norms = dice.one_in(2);
  scenario.optimizer.decay_biases = dice.one_in(2);
  scenario.label_smoothing = dice.one_in(3) ? 0.1 : 0.0;
  return scenario;
}

std::string describe(const Scenario& scenario) {
  return fmt::format(
      "{}group sizes {}, optimizer {}, seed {}", plan::to_json(scenario.plan, scenario.model),
      fmt::join(scenario.group_sizes, " "), nn::name_of(scenario.optimizer.kind), scenario.seed);
}

}  // namespace dynpipe::testing
