#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.hpp"

namespace dynpipe::model {

/// What a layer's steps take for one microbatch, in seconds.
struct LayerTimes {
  double forward_s = 0, backward_input_s = 0, backward_weight_s = 0;
};

/// One layer as it was measured within its chain: a step that the backend joins to the layer before
/// (an activation) takes nothing of its own.
struct LayerProfile {
  std::string name;
  /// Its forward is done by the layer before: a stage that began here would have to do it itself.
  bool joined = false;
  std::vector<LayerTimes> times;  ///< by Profile::samples
  double update_s = 0;            ///< of its parameters, once a group
  std::int64_t output_bytes = 0;  ///< of one sample: the message after this layer, and its gradient
  std::int64_t kept_bytes = 0;    ///< of one sample, from its forward to its backward
  std::int64_t parameter_bytes = 0;  ///< of one version of its weights
  std::int64_t state_bytes = 0;      ///< of the optimizer
};

/// What messages between two neighbouring ranks take.
struct LinkProfile {
  int from = 0, to = 0;  ///< ranks
  double latency_s = 0;
  double bytes_per_s = 0;            ///< one way
  double both_ways_bytes_per_s = 0;  ///< each way, of simultaneous traffic
  /// Share of a transfer's time in which the receiving rank computes on: 1 where an engine of its
  /// own moves the bytes, 0 where the rank's core does.
  double overlap = 1;
};

/// A model measured on a device, undisturbed: medians.
struct Profile {
  std::string model;   ///< its name
  std::string device;  ///< as it describes itself
  std::string build;   ///< versions of what did the maths
  std::int64_t batch = 0;
  std::vector<std::int64_t> samples;  ///< microbatch sizes that were measured, rising
  std::vector<LayerProfile> layers;
  std::vector<LinkProfile> links;
  /// Of the ranks that measured side by side: what the same layers took each, 1 for their mean.
  /// Empty: one rank measured alone.
  std::vector<double> slowdowns;

  /// Of a microbatch of n samples: between two measured sizes, and beyond them, along the line
  /// through the nearest two, never below zero; in proportion where one size was measured. Nothing
  /// for n = 0.
  LayerTimes times(int layer, std::int64_t n) const;
};

/// Throws InputError naming file, layer and field: not JSON, fields missing or unknown, times that
/// are negative or not finite, no time for a layer with weights, a model of another name, layers
/// missing, more or in another order.
Profile parse_profile(std::string_view json_text, const std::string& file, const Model& model);
/// What `parse_profile` reads, laid out for people: times in microseconds, six digits.
std::string to_json(const Profile& profile);

}  // namespace dynpipe::model
