#include "model/field_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dynpipe::model {

using nlohmann::json;

std::string problem_with_name(std::string_view name) {
  if (name.empty()) return "must not be empty";
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  };
  if (!std::all_of(name.begin(), name.end(), allowed)) {
    return fmt::format("must consist of letters, digits, '_', '-' and '.', is {}",
                       shown(json(name)));
  }
  if (name.front() == '.' || name.back() == '.' || name.find("..") != std::string_view::npos) {
    return fmt::format("must have a letter or digit on both sides of a dot, is {}",
                       shown(json(name)));
  }
  return {};
}

FieldReader::FieldReader(const LayerSpec& spec)
    : ObjectReader(*spec.fields, spec.file, spec.where), prefix_(spec.name + ".") {
  know({"name", "type"});
}

FieldReader::FieldReader(const json& object, const std::string& file)
    : ObjectReader(object, file, "") {}

HeightWidth FieldReader::required_pair(const std::string& field, std::int64_t at_least) {
  return pair(require(field), field, at_least);
}

HeightWidth FieldReader::optional_pair(const std::string& field, HeightWidth fallback,
                                       std::int64_t at_least) {
  const json* value = find(field);
  return value ? pair(*value, field, at_least) : fallback;
}

base::Shape FieldReader::required_shape(const std::string& field) {
  const json& value = require(field);
  if (!value.is_array() || (value.size() != 1 && value.size() != 3)) {
    refuse(field, "must be [C,H,W] or [features], is " + shown(value));
  }
  std::vector<std::int64_t> dims;
  for (const json& dim : value) dims.push_back(whole_number(dim, field, 1));
  return base::Shape(dims);
}

std::vector<LayerSpec> FieldReader::required_layers(const std::string& field) {
  require(field);
  std::vector<LayerSpec> specs = optional_layers(field);
  if (specs.empty()) refuse(field, "must have at least one layer");
  return specs;
}

std::vector<LayerSpec> FieldReader::optional_layers(const std::string& field) {
  const json* value = find(field);
  if (!value) return {};
  return parse_layer_specs(*value, prefix_, file(),
                           where().empty() ? field : where() + ": " + field);
}

HeightWidth FieldReader::pair(const json& value, const std::string& field,
                              std::int64_t at_least) const {
  if (value.is_array()) {
    if (value.size() != 2) {
      refuse(field, "must be a whole number or a pair [h,w], is " + shown(value));
    }
    return {whole_number(value[0], field, at_least), whole_number(value[1], field, at_least)};
  }
  const std::int64_t both = whole_number(value, field, at_least);
  return {both, both};
}

}  // namespace dynpipe::model
