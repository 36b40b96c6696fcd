#include <algorithm>
#include <array>
#include <stdexcept>

#include "nn/layer.hpp"
#include "nn/layers/rows.hpp"

namespace dynpipe::nn {

std::span<const LayerType> layer_table() {
  static const std::array k_table{
      layers::avgpool(), layers::batchnorm2d(),    layers::conv2d(), layers::dropout(),
      layers::flatten(), layers::global_avgpool(), layers::linear(), layers::maxpool(),
      layers::relu(),    layers::residual(),
  };
  return k_table;
}

const model::LayerTypes& layer_types() {
  static const model::LayerTypes k_types = [] {
    model::LayerTypes types;
    for (const LayerType& type : layer_table()) types.by_name.emplace(type.name, type.describe);
    return types;
  }();
  return k_types;
}

std::unique_ptr<Layer> make_layer(const LayerContext& context) {
  const std::span<const LayerType> table = layer_table();
  const std::string& wanted = context.description.spec.type;
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const LayerType& type) { return type.name == wanted; });
  if (found == table.end()) throw std::logic_error("no layer type '" + wanted + "'");
  return found->make(context);
}

}  // namespace dynpipe::nn
