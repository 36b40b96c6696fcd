#include "model/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/errors.hpp"
#include "model/field_reader.hpp"

namespace dynpipe::model {
namespace {

using nlohmann::json;

/// Full names are what checkpoints and optimizers know tensors by.
void require_distinct_tensors(const std::vector<Layer>& layers) {
  std::set<std::string, std::less<>> names;
  for (const Layer& layer : layers) {
    const auto claim = [&](const std::string& tensor) {
      const std::string full_name = layer.spec.name + "." + tensor;
      if (!names.insert(full_name).second) {
        throw base::InputError(
            layer.spec.file + ": " + layer.spec.where, "",
            fmt::format("its tensor '{}' has the name of another one", full_name));
      }
    };
    for (const ParameterSpec& parameter : layer.facts.parameters) claim(parameter.name);
    for (const StatisticSpec& statistic : layer.facts.statistics) claim(statistic.name);
  }
}

void require_known_loss(FieldReader& reader) {
  const std::string loss = reader.required_string("loss");
  if (loss != "softmax_cross_entropy") {
    reader.refuse(
        "loss", fmt::format("unknown loss {}; there is softmax_cross_entropy", shown(json(loss))));
  }
}

}  // namespace

std::int64_t LayerFacts::parameter_elements() const {
  std::int64_t elements = 0;
  for (const ParameterSpec& parameter : parameters) elements += parameter.shape.elements();
  return elements;
}

int Model::find(std::string_view layer_name) const {
  const auto found = std::find_if(layers.begin(), layers.end(), [&](const Layer& layer) {
    return layer.spec.name == layer_name;
  });
  return found == layers.end() ? -1 : static_cast<int>(found - layers.begin());
}

Model parse_model(std::string_view json_text, const std::string& file, const LayerTypes& types) {
  const json document = parse_document(json_text, file);
  FieldReader reader(document, file);
  Model model;
  model.file = file;
  model.name = reader.required_string("name");
  if (const std::string problem = problem_with_name(model.name); !problem.empty()) {
    reader.refuse("name", problem);
  }
  model.input = reader.required_shape("input");
  std::vector<LayerSpec> specs = reader.required_layers("layers");
  require_known_loss(reader);
  reader.done();

  checked_elements({.name = {}, .type = {}, .fields = {}, .file = file, .where = "input"},
                   "elements", model.input);
  model.layers = describe_chain(std::move(specs), model.input, types);
  require_distinct_tensors(model.layers);
  const Layer& last = model.layers.back();
  if (last.facts.output.rank() != 1) {
    throw base::InputError(
        file + ": " + last.spec.where, "",
        fmt::format("the last layer must give [classes], gives {}", last.facts.output.to_string()));
  }
  model.classes = last.facts.output[0];
  return model;
}

}  // namespace dynpipe::model
