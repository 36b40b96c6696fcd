#include "support/golden.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "nn/layer.hpp"
#include "nn/parameters.hpp"

namespace dynpipe::testing {
namespace {

using nlohmann::json;

tensor::StateDict read_tensors(const json& object, const model::Model& model) {
  tensor::StateDict shapes = nn::initial_state(model.layers, 0);
  tensor::StateDict tensors;
  for (const auto& [name, values] : object.items()) {
    tensors[name] = {shapes.at(name).shape, values.get<std::vector<double>>()};
  }
  return tensors;
}

nn::OptimizerSettings read_optimizer(const json& object) {
  nn::OptimizerSettings optimizer;
  optimizer.kind = nn::optimizer_named(object["kind"].get<std::string>());
  optimizer.momentum = object.value("momentum", 0.0);
  optimizer.nesterov = object.value("nesterov", false);
  optimizer.weight_decay = object.value("weight_decay", 0.0);
  optimizer.beta1 = object.value("beta1", 0.9);
  optimizer.beta2 = object.value("beta2", 0.999);
  optimizer.epsilon = object.value("epsilon", 1e-8);
  optimizer.momentum_decay = object.value("momentum_decay", optimizer.momentum_decay);
  const auto no_decay = object.value("no_decay", std::vector<std::string>{});
  optimizer.decay_norms = std::ranges::find(no_decay, "norms") == no_decay.end();
  optimizer.decay_biases = std::ranges::find(no_decay, "biases") == no_decay.end();
  return optimizer;
}

}  // namespace

Scenario GoldenCase::with_plan(plan::Schedule schedule, const std::vector<int>& replicas) const {
  Scenario planned = scenario;
  planned.plan = plan::equal_flops_plan(
      scenario.model, {schedule, plan::WeightPolicy::stash, microbatches, replicas});
  return planned;
}

std::vector<GoldenCase> read_golden_cases() {
  const std::string file = std::string(DYNPIPE_SOURCE_DIR) + "/tests/data/golden_cnn.json";
  std::ifstream stream(file);
  const json golden = json::parse(stream);
  Scenario common;
  common.model = model::parse_model(golden["model"].dump(), file, nn::layer_types());
  common.samples = {common.model.input, golden["images"].get<std::vector<double>>(),
                    golden["labels"].get<std::vector<std::int32_t>>()};
  common.initial = read_tensors(golden["initial"], common.model);
  std::vector<GoldenCase> cases;
  for (const json& entry : golden["cases"]) {
    GoldenCase one{entry["name"],
                   common,
                   entry["microbatches"],
                   entry["losses"],
                   entry["losses_float32"],
                   {},
                   {}};
    one.scenario.optimizer = read_optimizer(entry["optimizer"]);
    one.scenario.label_smoothing = entry.value("label_smoothing", 0.0);
    one.scenario.learning_rate.base = entry["optimizer"]["learning_rate"];
    one.scenario.group_sizes = {entry["batch"].get<std::int64_t>()};
    one.scenario.updates = static_cast<std::int64_t>(one.losses.size());
    one.first_gradients = read_tensors(entry["first_gradients"], common.model);
    one.final_state = read_tensors(entry["final"], common.model);
    cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace dynpipe::testing
