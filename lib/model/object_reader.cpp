#include "model/object_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/counted.hpp"
#include "base/errors.hpp"

namespace dynpipe::model {
namespace {

using nlohmann::json;

constexpr std::int64_t k_max_int = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t k_max_exact = std::int64_t{1} << 53;

std::int64_t whole_number_up_to(std::int64_t most, const ObjectReader& reader, const json& value,
                                const std::string& field, std::int64_t at_least) {
  if (!value.is_number_integer())
    reader.refuse(field, "must be a whole number, is " + shown(value));
  // Read as unsigned first: what is beyond int64 would come out negative.
  const bool too_large = value.is_number_unsigned()
                             ? value.get<std::uint64_t>() > static_cast<std::uint64_t>(most)
                             : value.get<std::int64_t>() > most;
  if (too_large) reader.refuse(field, fmt::format("must be at most {}, is {}", most, shown(value)));
  const auto number = value.get<std::int64_t>();
  if (number < at_least) {
    reader.refuse(field, fmt::format("must be at least {}, is {}", at_least, number));
  }
  return number;
}

}  // namespace

std::string shown(const json& value) {
  constexpr std::size_t k_longest = 40;
  // Escaping everything but ASCII means that cutting never splits a character.
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  if (text.size() > k_longest) text.replace(k_longest - 3, std::string::npos, "...");
  return text;
}

ObjectReader::ObjectReader(const json& object, std::string file, std::string where)
    : object_(object), file_(std::move(file)), where_(std::move(where)) {
  if (!object.is_object()) refuse("", "must be an object, is " + shown(object));
}

std::int64_t ObjectReader::required_int(const std::string& field, std::int64_t at_least) {
  return whole_number(require(field), field, at_least);
}

std::int64_t ObjectReader::required_count(const std::string& field, std::int64_t at_least) {
  return whole_number_up_to(k_max_exact, *this, require(field), field, at_least);
}

std::vector<std::int64_t> ObjectReader::required_counts(const std::string& field,
                                                        std::int64_t at_least) {
  std::vector<std::int64_t> counts;
  for (const json& value : required_array(field)) {
    counts.push_back(whole_number_up_to(k_max_exact, *this, value, field, at_least));
  }
  return counts;
}

double ObjectReader::required_number(const std::string& field, double at_least, double below) {
  return number(require(field), field, at_least, below);
}

double ObjectReader::optional_number(const std::string& field, double fallback, double at_least,
                                     double below) {
  const json* value = find(field);
  return value ? number(*value, field, at_least, below) : fallback;
}

bool ObjectReader::optional_bool(const std::string& field, bool fallback) {
  const json* value = find(field);
  if (!value) return fallback;
  if (!value->is_boolean()) refuse(field, "must be true or false, is " + shown(*value));
  return value->get<bool>();
}

std::string ObjectReader::required_string(const std::string& field) {
  const json& value = require(field);
  if (!value.is_string()) refuse(field, "must be a string, is " + shown(value));
  return value.get<std::string>();
}

const json& ObjectReader::required_array(const std::string& field) {
  const json& value = require(field);
  if (!value.is_array()) refuse(field, "must be an array, is " + shown(value));
  return value;
}

std::vector<double> ObjectReader::required_numbers(const std::string& field, std::size_t size,
                                                   double at_least, double below) {
  const json& value = required_array(field);
  if (value.size() != size) {
    refuse(field,
           fmt::format("must have {}, has {}",
                       base::counted(static_cast<std::int64_t>(size), "number"), value.size()));
  }
  std::vector<double> numbers;
  for (const json& element : value) numbers.push_back(number(element, field, at_least, below));
  return numbers;
}

std::vector<int> ObjectReader::whole_numbers(const json& value, const std::string& field) const {
  if (!value.is_array()) refuse(field, "must be an array of whole numbers, is " + shown(value));
  std::vector<int> numbers;
  for (const json& element : value) {
    numbers.push_back(static_cast<int>(whole_number(element, field, -k_max_int)));
  }
  return numbers;
}

void ObjectReader::done() const {
  for (const auto& [field, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), field) == known_.end()) {
      refuse("", fmt::format("unknown field {}; there are {}", shown(json(field)),
                             fmt::join(known_, ", ")));
    }
  }
}

void ObjectReader::refuse(std::string_view field, std::string_view problem) const {
  throw base::InputError(where_.empty() ? file_ : file_ + ": " + where_, field, problem);
}

const json* ObjectReader::find(const std::string& field) {
  if (std::find(known_.begin(), known_.end(), field) == known_.end()) known_.push_back(field);
  const auto found = object_.find(field);
  return found == object_.end() ? nullptr : &*found;
}

const json& ObjectReader::require(const std::string& field) {
  const json* value = find(field);
  if (!value) refuse(field, "is missing");
  return *value;
}

std::int64_t ObjectReader::whole_number(const json& value, const std::string& field,
                                        std::int64_t at_least) const {
  return whole_number_up_to(k_max_int, *this, value, field, at_least);
}

double ObjectReader::number(const json& value, const std::string& field, double at_least,
                            double below) const {
  if (!value.is_number()) refuse(field, "must be a number, is " + shown(value));
  const auto number = value.get<double>();
  if (!(number >= at_least && number < below)) {
    refuse(field, fmt::format("must be at least {} and below {}, is {}", at_least, below, number));
  }
  return number;
}

}  // namespace dynpipe::model
