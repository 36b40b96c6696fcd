#include "model/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/errors.hpp"
#include "model/field_reader.hpp"

namespace dynpipe::model {
namespace {

using nlohmann::json;

/// Deeper nesting has no use, and recursion over the value would exhaust the stack.
constexpr int k_max_depth = 64;

/// Watches the parser for what it would let pass: endless nesting, and keys given twice, of which
/// it keeps the last.
class StructureGuard {
 public:
  explicit StructureGuard(const std::string& file) : file_(file) {}

  bool operator()(int depth, json::parse_event_t event, const json& value) {
    if (depth > k_max_depth) {
      throw base::InputError(file_, "", fmt::format("nested deeper than {} levels", k_max_depth));
    }
    if (event == json::parse_event_t::object_start) keys_.emplace_back();
    if (event == json::parse_event_t::object_end) keys_.pop_back();
    if (event == json::parse_event_t::key &&
        !keys_.back().insert(value.get<std::string>()).second) {
      throw base::InputError(file_, "", fmt::format("key {} twice in one object", shown(value)));
    }
    return true;
  }

 private:
  const std::string& file_;
  std::vector<std::set<std::string, std::less<>>> keys_;  ///< of the objects that are open
};

struct Position {
  std::size_t line, column;  ///< both from 1
};

Position position_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto lines = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  const std::size_t line_start = lines == 0 ? 0 : before.rfind('\n') + 1;
  return {lines + 1, before.size() - line_start + 1};
}

/// The library's message without its prefix "[json.exception...] parse error at line 1, column 2:
/// ".
std::string reason(const json::parse_error& error) {
  const std::string what = error.what();
  const std::size_t position = what.find(": ");
  return position == std::string::npos ? what : what.substr(position + 2);
}

json parse_json(std::string_view text, const std::string& file) {
  try {
    return json::parse(text, StructureGuard(file));
  } catch (const json::parse_error& error) {
    const Position at = position_of(text, error.byte == 0 ? 0 : error.byte - 1);
    throw base::InputError(file, fmt::format("line {}, column {}", at.line, at.column),
                           "not JSON: " + reason(error));
  } catch (const json::exception& error) {  // a number beyond float64
    throw base::InputError(file, "", fmt::format("unusable JSON: {}", error.what()));
  }
}

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
  const json document = parse_json(json_text, file);
  if (!document.is_object()) {
    throw base::InputError(file, "", "must be an object, is " + shown(document));
  }
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
