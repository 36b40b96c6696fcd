#include "model/field_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/errors.hpp"

namespace dynpipe::model {
namespace {

using nlohmann::json;

constexpr std::int64_t k_max_int = std::numeric_limits<std::int32_t>::max();

std::string located(const std::string& file, const std::string& where) {
  return where.empty() ? file : file + ": " + where;
}

}  // namespace

std::string shown(const json& value) {
  constexpr std::size_t k_longest = 40;
  // Escaping everything but ASCII means that cutting never splits a character.
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  if (text.size() > k_longest) text.replace(k_longest - 3, std::string::npos, "...");
  return text;
}

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
    : object_(spec.fields),
      file_(spec.file),
      where_(spec.where),
      prefix_(spec.name + "."),
      known_{"name", "type"} {}

FieldReader::FieldReader(const json& object, const std::string& file)
    : object_(object), file_(file) {}

std::int64_t FieldReader::required_int(const std::string& field, std::int64_t at_least) {
  return whole_number(require(field), field, at_least);
}

std::int64_t FieldReader::optional_int(const std::string& field, std::int64_t fallback,
                                       std::int64_t at_least) {
  const json* value = find(field);
  return value ? whole_number(*value, field, at_least) : fallback;
}

HeightWidth FieldReader::required_pair(const std::string& field, std::int64_t at_least) {
  return pair(require(field), field, at_least);
}

HeightWidth FieldReader::optional_pair(const std::string& field, HeightWidth fallback,
                                       std::int64_t at_least) {
  const json* value = find(field);
  return value ? pair(*value, field, at_least) : fallback;
}

double FieldReader::optional_number(const std::string& field, double fallback, double at_least,
                                    double below) {
  const json* value = find(field);
  if (!value) return fallback;
  if (!value->is_number()) refuse(field, "must be a number, is " + shown(*value));
  const auto number = value->get<double>();
  if (!(number >= at_least && number < below)) {
    refuse(field, fmt::format("must be at least {} and below {}, is {}", at_least, below, number));
  }
  return number;
}

bool FieldReader::optional_bool(const std::string& field, bool fallback) {
  const json* value = find(field);
  if (!value) return fallback;
  if (!value->is_boolean()) refuse(field, "must be true or false, is " + shown(*value));
  return value->get<bool>();
}

std::string FieldReader::required_string(const std::string& field) {
  const json& value = require(field);
  if (!value.is_string()) refuse(field, "must be a string, is " + shown(value));
  return value.get<std::string>();
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
  return parse_layer_specs(*value, prefix_, file_, where_.empty() ? field : where_ + ": " + field);
}

void FieldReader::done() const {
  for (const auto& [field, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), field) == known_.end()) {
      refuse("", fmt::format("unknown field {}; there are {}", shown(json(field)),
                             fmt::join(known_, ", ")));
    }
  }
}

void FieldReader::refuse(std::string_view field, std::string_view problem) const {
  throw base::InputError(located(file_, where_), field, problem);
}

const json* FieldReader::find(const std::string& field) {
  if (std::find(known_.begin(), known_.end(), field) == known_.end()) known_.push_back(field);
  const auto found = object_.find(field);
  return found == object_.end() ? nullptr : &*found;
}

const json& FieldReader::require(const std::string& field) {
  const json* value = find(field);
  if (!value) refuse(field, "is missing");
  return *value;
}

std::int64_t FieldReader::whole_number(const json& value, const std::string& field,
                                       std::int64_t at_least) const {
  if (!value.is_number_integer()) refuse(field, "must be a whole number, is " + shown(value));
  // Read as unsigned first: what is beyond int64 would come out negative.
  const bool too_large = value.is_number_unsigned()
                             ? value.get<std::uint64_t>() > std::uint64_t{k_max_int}
                             : value.get<std::int64_t>() > k_max_int;
  if (too_large) refuse(field, fmt::format("must be at most {}, is {}", k_max_int, shown(value)));
  const auto number = value.get<std::int64_t>();
  if (number < at_least) refuse(field, fmt::format("must be at least {}, is {}", at_least, number));
  return number;
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
