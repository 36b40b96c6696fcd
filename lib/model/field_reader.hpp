#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.hpp"
#include "model/model.hpp"

namespace dynpipe::model {

/// One value for each axis of an image.
struct HeightWidth {
  std::int64_t h, w;
};

/// Typed access to the fields of a JSON object of a model file. Every refusal is an InputError that
/// names file, place and field; `done` refuses any field that nobody asked for, so that a misspelt
/// one is never ignored. Whole numbers are below 2^31. The object must outlive the reader.
class FieldReader {
 public:
  /// The fields of a layer; its name and type have been read.
  explicit FieldReader(const LayerSpec& spec);
  /// The fields of the file's outermost object.
  FieldReader(const nlohmann::json& object, const std::string& file);

  std::int64_t required_int(const std::string& field, std::int64_t at_least);
  std::int64_t optional_int(const std::string& field, std::int64_t fallback, std::int64_t at_least);
  /// A whole number for both axes, or a pair [h,w].
  HeightWidth required_pair(const std::string& field, std::int64_t at_least);
  HeightWidth optional_pair(const std::string& field, HeightWidth fallback, std::int64_t at_least);
  /// In [at_least, below).
  double optional_number(const std::string& field, double fallback, double at_least, double below);
  bool optional_bool(const std::string& field, bool fallback);
  std::string required_string(const std::string& field);
  /// The shape of a sample: [C,H,W] or [features].
  base::Shape required_shape(const std::string& field);
  /// An array of layers with at least one.
  std::vector<LayerSpec> required_layers(const std::string& field);
  /// An array of layers; empty if absent.
  std::vector<LayerSpec> optional_layers(const std::string& field);

  void done() const;
  [[noreturn]] void refuse(std::string_view field, std::string_view problem) const;

 private:
  const nlohmann::json* find(const std::string& field);
  const nlohmann::json& require(const std::string& field);
  std::int64_t whole_number(const nlohmann::json& value, const std::string& field,
                            std::int64_t at_least) const;
  HeightWidth pair(const nlohmann::json& value, const std::string& field,
                   std::int64_t at_least) const;

  const nlohmann::json& object_;
  std::string file_;
  std::string where_;   ///< within the file; empty for the outermost object
  std::string prefix_;  ///< of the names of inner layers
  std::vector<std::string> known_;
};

/// A JSON value as a message shows it: on one line, cut where it is long.
std::string shown(const nlohmann::json& value);

/// Names become part of parameter names and of paths in checkpoints. Returns what is wrong with
/// `name`, or an empty text.
std::string problem_with_name(std::string_view name);

}  // namespace dynpipe::model
