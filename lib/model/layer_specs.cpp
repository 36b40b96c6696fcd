#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/errors.hpp"
#include "model/field_reader.hpp"
#include "model/model.hpp"

namespace dynpipe::model {
namespace {

using nlohmann::json;

constexpr std::size_t k_max_layers = 4096;

/// A string member of a layer's object. Throws InputError.
std::string string_member(const json& object, const std::string& member, const std::string& place) {
  const auto found = object.find(member);
  if (found == object.end()) throw base::InputError(place, member, "is missing");
  if (!found->is_string()) {
    throw base::InputError(place, member, "must be a string, is " + shown(*found));
  }
  return found->get<std::string>();
}

void require_sane_counts(const LayerSpec& spec, const LayerFacts& facts) {
  checked_elements(spec, "output elements", facts.output);
  std::int64_t parameters = 0;  // no overflow: a layer has at most a few thousand tensors
  for (const ParameterSpec& parameter : facts.parameters) {
    parameters += checked_elements(spec, "elements of " + parameter.name, parameter.shape);
  }
  checked_count(spec, "parameters", {parameters});
  checked_count(spec, "activation elements", {facts.activation_elements});
  checked_count(spec, "operations", {facts.forward_flops});
}

LayerFacts described(const LayerSpec& spec, const base::Shape& input, const LayerTypes& types) {
  const auto type = types.by_name.find(spec.type);
  if (type == types.by_name.end()) {
    std::vector<std::string> known;
    for (const auto& [name, describe] : types.by_name) known.push_back(name);
    throw base::InputError(spec.file + ": " + spec.where, "type",
                           fmt::format("unknown layer type {}; there are {}",
                                       shown(json(spec.type)), fmt::join(known, ", ")));
  }
  LayerFacts facts = type->second(spec, input, types);
  require_sane_counts(spec, facts);
  return facts;
}

}  // namespace

std::vector<LayerSpec> parse_layer_specs(const json& array, const std::string& prefix,
                                         const std::string& file, const std::string& where) {
  if (!array.is_array()) {
    throw base::InputError(file, where, "must be an array of layers, is " + shown(array));
  }
  if (array.size() > k_max_layers) {
    throw base::InputError(
        file, where, fmt::format("has {} layers; at most {} can be", array.size(), k_max_layers));
  }
  std::vector<LayerSpec> specs;
  std::set<std::string, std::less<>> names;
  for (const json& object : array) {
    const std::string place = fmt::format("{}[{}]", where, specs.size());
    const std::string located = file + ": " + place;
    if (!object.is_object()) {
      throw base::InputError(located, "", "must be an object, is " + shown(object));
    }
    const std::string name = string_member(object, "name", located);
    if (const std::string problem = problem_with_name(name); !problem.empty()) {
      throw base::InputError(located, "name", problem);
    }
    if (!names.insert(name).second) {
      throw base::InputError(located, "name",
                             fmt::format("'{}' is taken by an earlier layer", name));
    }
    const std::string full_name = prefix + name;
    const std::string named_place = fmt::format("{} '{}'", place, full_name);
    specs.push_back({.name = full_name,
                     .type = string_member(object, "type", file + ": " + named_place),
                     .fields = std::make_shared<const json>(object),
                     .file = file,
                     .where = named_place});
  }
  return specs;
}

std::vector<Layer> describe_chain(std::vector<LayerSpec> specs, const base::Shape& input,
                                  const LayerTypes& types) {
  std::vector<Layer> layers;
  layers.reserve(specs.size());
  base::Shape shape = input;
  for (LayerSpec& spec : specs) {
    LayerFacts facts = described(spec, shape, types);
    const base::Shape output = facts.output;
    layers.push_back({.spec = std::move(spec), .input = shape, .facts = std::move(facts)});
    shape = output;
  }
  return layers;
}

std::int64_t checked_count(const LayerSpec& spec, std::string_view what,
                           std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (factor != 0 && product > k_max_count / factor) {
      throw base::InputError(spec.file + ": " + spec.where, "",
                             fmt::format("more than 2^48 {}", what));
    }
    product *= factor;
  }
  return product;
}

std::int64_t checked_elements(const LayerSpec& spec, std::string_view what,
                              const base::Shape& shape) {
  std::int64_t elements = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    elements = checked_count(spec, what, {elements, shape[axis]});
  }
  return elements;
}

void require_rank(const LayerSpec& spec, const base::Shape& input, int rank) {
  if (input.rank() == rank) return;
  throw base::InputError(
      spec.file + ": " + spec.where, "",
      fmt::format("a {} layer takes {}, but its input is {}", spec.type,
                  rank == 3 ? "images [C,H,W]" : "features [F] (put a flatten layer before it)",
                  input.to_string()));
}

}  // namespace dynpipe::model
