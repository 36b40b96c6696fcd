#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "model/object_reader.hpp"
#include "model/profile.hpp"

namespace dynpipe::model {
namespace {

using nlohmann::json;

constexpr double k_us_a_second = 1e6;
/// What is beyond is a mistake, in any unit.
constexpr double k_beyond = 1e18;
/// The least number that is not 0.
constexpr double k_something = std::numeric_limits<double>::min();

std::vector<std::int64_t> read_samples(ObjectReader& reader) {
  std::vector<std::int64_t> samples;
  for (const int n : reader.whole_numbers(reader.required_array("samples"), "samples")) {
    if (n < 1) reader.refuse("samples", fmt::format("must be at least 1, has {}", n));
    if (!samples.empty() && n <= samples.back()) {
      reader.refuse("samples", fmt::format("must rise, but {} follows {}", n, samples.back()));
    }
    samples.push_back(n);
  }
  if (samples.empty()) reader.refuse("samples", "must have a microbatch size that was measured");
  return samples;
}

/// A layer with weights has something to compute, so that no step of it takes no time at all.
void require_times_of_work(const ObjectReader& reader, const LayerProfile& layer) {
  for (const LayerTimes& times : layer.times) {
    if (times.forward_s == 0) reader.refuse("forward_us", "is 0, but the layer has weights");
    if (times.backward_input_s + times.backward_weight_s == 0) {
      reader.refuse("backward_weight_us", "is 0, but the layer has weights");
    }
  }
}

LayerProfile read_layer(const json& object, std::size_t i, const Profile& profile,
                        const std::string& file, const Model& model) {
  const Layer& described = model.layers[i];
  ObjectReader reader(object, file, fmt::format("layers[{}] '{}'", i, described.spec.name));
  LayerProfile layer;
  layer.name = reader.required_string("name");
  if (layer.name != described.spec.name) {
    reader.refuse("name", fmt::format("is '{}', but layer {} of {} is '{}'", layer.name, i,
                                      model.file, described.spec.name));
  }
  layer.joined = reader.optional_bool("joined", false);
  const auto times = [&](const char* field) {
    return reader.required_numbers(field, profile.samples.size(), 0, k_beyond);
  };
  const std::vector<double> forward = times("forward_us");
  const std::vector<double> backward_input = times("backward_input_us");
  const std::vector<double> backward_weight = times("backward_weight_us");
  for (std::size_t k = 0; k < profile.samples.size(); ++k) {
    layer.times.push_back({forward[k] / k_us_a_second, backward_input[k] / k_us_a_second,
                           backward_weight[k] / k_us_a_second});
  }
  layer.update_s = reader.required_number("update_us", 0, k_beyond) / k_us_a_second;
  layer.output_bytes = reader.required_count("output_bytes", 1);
  layer.kept_bytes = reader.required_count("kept_bytes", 0);
  layer.parameter_bytes = reader.required_count("parameter_bytes", 0);
  layer.state_bytes = reader.required_count("state_bytes", 0);
  reader.done();
  if (described.facts.parameter_elements() > 0) require_times_of_work(reader, layer);
  return layer;
}

std::vector<LayerProfile> read_layers(ObjectReader& reader, const Profile& profile,
                                      const std::string& file, const Model& model) {
  const json& array = reader.required_array("layers");
  std::vector<LayerProfile> layers;
  for (std::size_t i = 0; i < std::min(array.size(), model.layers.size()); ++i) {
    layers.push_back(read_layer(array[i], i, profile, file, model));
  }
  if (array.size() < model.layers.size()) {
    reader.refuse("layers", fmt::format("ends before '{}': has {} of the {} layers of {}",
                                        model.layers[array.size()].spec.name, array.size(),
                                        model.layers.size(), model.file));
  }
  if (array.size() > model.layers.size()) {
    reader.refuse("layers", fmt::format("has {} layers, {} has {}", array.size(), model.file,
                                        model.layers.size()));
  }
  return layers;
}

LinkProfile read_link(const json& object, std::size_t i, const std::string& file) {
  ObjectReader reader(object, file, fmt::format("links[{}]", i));
  LinkProfile link;
  link.from = static_cast<int>(reader.required_int("from", 0));
  link.to = static_cast<int>(reader.required_int("to", 0));
  if (link.from == link.to) reader.refuse("to", "is where the link comes from");
  link.latency_s = reader.required_number("latency_us", 0, k_beyond) / k_us_a_second;
  link.bytes_per_s = reader.required_number("bytes_per_s", k_something, k_beyond);
  link.both_ways_bytes_per_s =
      reader.required_number("both_ways_bytes_per_s", k_something, k_beyond);
  link.overlap = reader.required_number("overlap", 0, std::nextafter(1.0, 2.0));
  reader.done();
  return link;
}

/// In microseconds, to six digits.
std::string shown_times(const std::vector<LayerTimes>& times, double LayerTimes::*step) {
  std::vector<std::string> numbers;
  for (const LayerTimes& one : times) {
    numbers.push_back(fmt::format("{:.6g}", one.*step * k_us_a_second));
  }
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

std::string shown_layer(const LayerProfile& layer) {
  return fmt::format(
      "    {{\"name\": {},{}\n"
      "     \"forward_us\": {}, \"backward_input_us\": {}, \"backward_weight_us\": {},\n"
      "     \"update_us\": {:.6g}, \"output_bytes\": {}, \"kept_bytes\": {}, "
      "\"parameter_bytes\": {}, \"state_bytes\": {}}}",
      json(layer.name).dump(), layer.joined ? " \"joined\": true," : "",
      shown_times(layer.times, &LayerTimes::forward_s),
      shown_times(layer.times, &LayerTimes::backward_input_s),
      shown_times(layer.times, &LayerTimes::backward_weight_s), layer.update_s * k_us_a_second,
      layer.output_bytes, layer.kept_bytes, layer.parameter_bytes, layer.state_bytes);
}

std::string shown_link(const LinkProfile& link) {
  return fmt::format(
      "    {{\"from\": {}, \"to\": {}, \"latency_us\": {:.6g}, \"bytes_per_s\": {:.6g}, "
      "\"both_ways_bytes_per_s\": {:.6g}, \"overlap\": {:.6g}}}",
      link.from, link.to, link.latency_s * k_us_a_second, link.bytes_per_s,
      link.both_ways_bytes_per_s, link.overlap);
}

template <typename Item, typename Show>
std::string shown_array(const std::vector<Item>& items, const Show& show) {
  if (items.empty()) return "[]";
  std::vector<std::string> lines;
  for (const Item& item : items) lines.push_back(show(item));
  return fmt::format("[\n{}\n  ]", fmt::join(lines, ",\n"));
}

}  // namespace

Profile parse_profile(std::string_view json_text, const std::string& file, const Model& model) {
  const json document = parse_document(json_text, file);
  ObjectReader reader(document, file, "");
  Profile profile;
  profile.model = reader.required_string("model");
  if (profile.model != model.name) {
    reader.refuse("model",
                  fmt::format("is '{}', but the model is '{}'", profile.model, model.name));
  }
  profile.device = reader.required_string("device");
  profile.build = reader.required_string("build");
  profile.batch = reader.required_int("batch", 1);
  profile.samples = read_samples(reader);
  profile.layers = read_layers(reader, profile, file, model);
  if (reader.find("links") != nullptr) {
    const json& links = reader.required_array("links");
    for (std::size_t i = 0; i < links.size(); ++i) {
      profile.links.push_back(read_link(links[i], i, file));
    }
  }
  if (reader.find("slowdowns") != nullptr) {
    const std::size_t ranks = reader.required_array("slowdowns").size();
    profile.slowdowns = reader.required_numbers("slowdowns", ranks, k_something, k_beyond);
  }
  reader.done();
  return profile;
}

std::string to_json(const Profile& profile) {
  return fmt::format(
      "{{\n  \"model\": {},\n  \"device\": {},\n  \"build\": {},\n  \"batch\": {},\n"
      "  \"samples\": [{}],\n  \"layers\": {},\n  \"links\": {}{}\n}}\n",
      json(profile.model).dump(), json(profile.device).dump(), json(profile.build).dump(),
      profile.batch, fmt::join(profile.samples, ", "), shown_array(profile.layers, shown_layer),
      shown_array(profile.links, shown_link),
      profile.slowdowns.empty()
          ? ""
          : fmt::format(",\n  \"slowdowns\": [{:.6g}]", fmt::join(profile.slowdowns, ", ")));
}

}  // namespace dynpipe::model
