#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"
#include "interference/forest.hpp"
#include "model/object_reader.hpp"

namespace dynpipe::interference {
namespace {

using base::InputError;
using model::ObjectReader;
using Json = nlohmann::ordered_json;

constexpr std::string_view k_format = "dynpipe forest";
constexpr double k_huge = 1e12;
constexpr int k_most_trees = 100'000;

Json json_of(const Accuracy& accuracy) {
  return {{"rows", accuracy.rows},
          {"mae", accuracy.mae},
          {"relative", accuracy.relative},
          {"measured_mae", accuracy.measured_mae},
          {"measured_relative", accuracy.measured_relative}};
}

Accuracy accuracy_in(const nlohmann::json& object, const std::string& file,
                     const std::string& where) {
  ObjectReader reader(object, file, where);
  Accuracy accuracy;
  accuracy.rows = reader.required_count("rows", 0);
  accuracy.mae = reader.required_number("mae", 0, k_huge);
  accuracy.relative = reader.required_number("relative", 0, k_huge);
  accuracy.measured_mae = reader.required_number("measured_mae", 0, k_huge);
  accuracy.measured_relative = reader.required_number("measured_relative", 0, k_huge);
  reader.done();
  return accuracy;
}

/// The same number, without the digits that a float does not have.
double printed(float value) {
  return std::stod(fmt::format("{}", value));
}

Json features_json(const ForestFacts& facts) {
  Json features = Json::array();
  for (std::size_t i = 0; i < k_features; ++i) {
    const FeatureInfo& info = feature_table()[i];
    const FeatureRange& range = facts.ranges[i];
    features.push_back({{"name", info.name},
                        {"unit", info.unit},
                        {"low", printed(range.low)},
                        {"high", printed(range.high)},
                        {"unknown", range.unknown},
                        {"importance", facts.importance[i]}});
  }
  return features;
}

void refuse_unless_ours(ObjectReader& reader) {
  const nlohmann::json* format = reader.find("format");
  if (format == nullptr || !format->is_string() || format->get<std::string>() != k_format) {
    reader.refuse("format", fmt::format("is not \"{}\": this is no forest that `dynpipe forest "
                                        "train` made (version {} is read here)",
                                        k_format, k_forest_version));
  }
  const std::int64_t version = reader.required_int("version", 0);
  const std::int64_t features = reader.required_int("feature_version", 0);
  if (version != k_forest_version || features != k_feature_version) {
    reader.refuse(version != k_forest_version ? "version" : "feature_version",
                  fmt::format("is {}, version {} of forests with version {} of features is read "
                              "here; make one with `dynpipe forest train`",
                              version != k_forest_version ? version : features, k_forest_version,
                              k_feature_version));
  }
}

void read_features(ObjectReader& forest, const std::string& file, ForestFacts& facts) {
  const nlohmann::json& list = forest.required_array("features");
  if (list.size() != k_features) {
    forest.refuse("features", fmt::format("must be {}, are {}", k_features, list.size()));
  }
  for (std::size_t i = 0; i < k_features; ++i) {
    ObjectReader reader(list[i], file, fmt::format("features[{}]", i));
    const FeatureInfo& info = feature_table()[i];
    if (const std::string name = reader.required_string("name"); name != info.name) {
      reader.refuse("name", fmt::format("is '{}', must be '{}'", name, info.name));
    }
    if (const std::string unit = reader.required_string("unit"); unit != info.unit) {
      reader.refuse("unit", fmt::format("is '{}', must be '{}'", unit, info.unit));
    }
    FeatureRange& range = facts.ranges[i];
    const double low = reader.required_number("low", -k_huge, k_huge);
    range.low = static_cast<float>(low);
    range.high = static_cast<float>(reader.required_number("high", low, k_huge));
    range.unknown = reader.optional_bool("unknown", false);
    facts.importance[i] = reader.required_number("importance", 0, k_huge);
    reader.done();
  }
}

}  // namespace

std::string Forest::to_json() const {
  Json json;
  json["format"] = k_format;
  json["version"] = k_forest_version;
  json["feature_version"] = k_feature_version;
  json["kind"] = name_of(facts_.kind);
  json["rounds"] = facts_.rounds;
  json["parallel_trees"] = facts_.parallel_trees;
  json["label_noise"] = facts_.label_noise;
  json["spread_scale"] = facts_.spread_scale;
  json["held_out"] = json_of(facts_.held_out);
  json["held_out_by_mix"] = Json::object();
  for (const auto& [mix, accuracy] : facts_.held_out_by_mix) {
    json["held_out_by_mix"][mix] = json_of(accuracy);
  }
  json["rows"] = facts_.rows;
  json["data"] = facts_.data;
  json["machine"] = facts_.machine;
  json["features"] = features_json(facts_);
  std::string text = json.dump(1);
  text.resize(text.size() - 2);  // its last line's end and brace
  return text + ",\n \"trees\": " + booster_.json() + "\n}\n";
}

Forest Forest::parse(std::string_view json_text, const std::string& file) {
  const nlohmann::json document = model::parse_document(json_text, file);
  ObjectReader reader(document, file, "");
  refuse_unless_ours(reader);
  ForestFacts facts;
  const std::string kind = reader.required_string("kind");
  if (kind != "random" && kind != "boosted") {
    reader.refuse("kind", fmt::format("must be random or boosted, is '{}'", kind));
  }
  facts.kind = kind == "random" ? ForestKind::random : ForestKind::boosted;
  facts.rounds = static_cast<int>(reader.required_int("rounds", 1));
  facts.parallel_trees = static_cast<int>(reader.required_int("parallel_trees", 1));
  if (std::int64_t{facts.rounds} * facts.parallel_trees > k_most_trees) {
    reader.refuse("rounds", fmt::format("times parallel_trees must be at most {}", k_most_trees));
  }
  facts.label_noise = reader.required_number("label_noise", 0, k_huge);
  facts.spread_scale = reader.required_number("spread_scale", 0, k_huge);
  facts.held_out = accuracy_in(reader.require("held_out"), file, "held_out");
  const nlohmann::json& by_mix = reader.require("held_out_by_mix");
  if (!by_mix.is_object()) reader.refuse("held_out_by_mix", "must be an object");
  for (const auto& [mix, accuracy] : by_mix.items()) {
    facts.held_out_by_mix[mix] = accuracy_in(accuracy, file, "held_out_by_mix." + mix);
  }
  facts.rows = reader.required_count("rows", 0);
  facts.data = reader.required_string("data");
  facts.machine = reader.required_string("machine");
  read_features(reader, file, facts);
  const nlohmann::json& trees = reader.require("trees");
  reader.done();
  try {
    return {std::move(facts), Booster::from_json(trees.dump())};
  } catch (const InputError& error) {
    throw InputError(file, "", error.what());
  } catch (const std::exception& error) {
    throw InputError(file, "trees", fmt::format("cannot be used: {}", error.what()));
  }
}

}  // namespace dynpipe::interference
