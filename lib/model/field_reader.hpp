#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.hpp"
#include "model/model.hpp"
#include "model/object_reader.hpp"

namespace dynpipe::model {

/// One value for each axis of an image.
struct HeightWidth {
  std::int64_t h, w;
};

/// The fields of a model file: of the file itself, or of a layer.
class FieldReader : public ObjectReader {
 public:
  /// The fields of a layer; its name and type have been read.
  explicit FieldReader(const LayerSpec& spec);
  /// The fields of the file's outermost object.
  FieldReader(const nlohmann::json& object, const std::string& file);

  /// A whole number for both axes, or a pair [h,w].
  HeightWidth required_pair(const std::string& field, std::int64_t at_least);
  HeightWidth optional_pair(const std::string& field, HeightWidth fallback, std::int64_t at_least);
  /// The shape of a sample: [C,H,W] or [features].
  base::Shape required_shape(const std::string& field);
  /// An array of layers with at least one.
  std::vector<LayerSpec> required_layers(const std::string& field);
  /// An array of layers; empty if absent.
  std::vector<LayerSpec> optional_layers(const std::string& field);

 private:
  HeightWidth pair(const nlohmann::json& value, const std::string& field,
                   std::int64_t at_least) const;

  std::string prefix_;  ///< of the names of inner layers
};

/// Names become part of parameter names and of paths in checkpoints. Returns what is wrong with
/// `name`, or an empty text.
std::string problem_with_name(std::string_view name);

}  // namespace dynpipe::model
