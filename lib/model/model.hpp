#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.hpp"

namespace dynpipe::model {

/// One layer as written in the model file, before anything is known of its meaning.
struct LayerSpec {
  std::string name;  ///< as in the file, with the enclosing block's name: "layer1.0.conv1"
  std::string type;  ///< "conv2d"
  std::shared_ptr<const nlohmann::json> fields;  ///< the JSON object, with "name" and "type"
  std::string file;                              ///< for messages
  std::string where;                             ///< for messages: "layers[3] 'layer1.0'"
};

/// How a parameter starts. `fan_in` is the number of inputs of one output.
enum class Init {
  zeros,
  ones,
  he_normal,  ///< normal, variance 2 / fan_in (He et al. 2015)
};

/// What an optimizer may treat differently.
enum class ParameterKind {
  weight,
  bias,
  norm,  ///< a normalisation's scale or shift
};

/// A trainable tensor, updated by the optimizer.
struct ParameterSpec {
  std::string name;  ///< within the layer, as PyTorch names it: "weight"
  base::Shape shape;
  Init init = Init::zeros;
  std::int64_t fan_in = 1;
  ParameterKind kind = ParameterKind::weight;
};

/// A running statistic, folded once per microbatch, in order of microbatches, when its group is
/// applied: running = (1 - momentum) running + momentum value.
struct StatisticSpec {
  std::string name;  ///< within the layer, as PyTorch names it: "running_mean"
  base::Shape shape;
  double initial = 0.0;
  double momentum = 0.1;
};

/// What is known of a layer once the shape of its input is.
struct LayerFacts {
  base::Shape output;                    ///< of one sample
  std::int64_t forward_flops = 0;        ///< of one sample; a multiply-add counts two
  std::int64_t activation_elements = 0;  ///< kept from forward to backward, of one sample
  std::int64_t least_samples = 1;  ///< that a microbatch of training needs, unless it is empty
  std::vector<ParameterSpec> parameters;  ///< a block's have its inner layers' names before them
  std::vector<StatisticSpec> statistics;  ///< likewise

  std::int64_t parameter_elements() const;
};

struct LayerTypes;

/// Reads a layer's own fields and infers its facts. Throws InputError naming file, layer and field.
using DescribeLayer =
    std::function<LayerFacts(const LayerSpec&, const base::Shape& input, const LayerTypes&)>;

/// The layer types there are; a block's description looks its inner layers up in it.
struct LayerTypes {
  std::map<std::string, DescribeLayer, std::less<>> by_name;
};

struct Layer {
  LayerSpec spec;
  base::Shape input;  ///< of one sample
  LayerFacts facts;
};

/// A chain of layers: what a plan cuts into stages.
struct Model {
  std::string name;
  std::string file;
  base::Shape input;         ///< of one sample, [C,H,W] or [features]
  std::int64_t classes = 0;  ///< length of the last layer's output
  std::vector<Layer> layers;

  int size() const { return static_cast<int>(layers.size()); }
  /// Position of the named layer, or -1.
  int find(std::string_view layer_name) const;
};

/// The model written in `json_text`; `file` is for messages. Any text gives a model or an
/// InputError.
Model parse_model(std::string_view json_text, const std::string& file, const LayerTypes& types);

/// Specs of the layers in a JSON array, names prefixed with `prefix` (a block's name and a dot, or
/// empty). Throws InputError on a missing, malformed or duplicate name, and on a missing type.
std::vector<LayerSpec> parse_layer_specs(const nlohmann::json& array, const std::string& prefix,
                                         const std::string& file, const std::string& where);

/// A chain of specs, described one after another. Throws InputError for a type that is not in the
/// table, for a layer that refuses its input, and for counts beyond `k_max_count`.
std::vector<Layer> describe_chain(std::vector<LayerSpec> specs, const base::Shape& input,
                                  const LayerTypes& types);

/// Bound of every element and operation count of a layer: sums over a model stay far from overflow.
inline constexpr std::int64_t k_max_count = std::int64_t{1} << 48;

/// Product of non-negative factors. Throws InputError naming `what` where it passes `k_max_count`.
std::int64_t checked_count(const LayerSpec& spec, std::string_view what,
                           std::initializer_list<std::int64_t> factors);

/// The same for the elements of a shape.
std::int64_t checked_elements(const LayerSpec& spec, std::string_view what,
                              const base::Shape& shape);

/// Throws InputError unless `input` has `rank` dimensions (3 for images, 1 for features).
void require_rank(const LayerSpec& spec, const base::Shape& input, int rank);

}  // namespace dynpipe::model
