#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/forest_stages.hpp"
#include "nn/layer.hpp"

namespace dynpipe::app {
namespace {

/// Writes a model file, layer by layer.
class Writer {
 public:
  Writer(const std::string& name, const std::vector<int>& input)
      : json_{{"name", name}, {"input", input}, {"loss", "softmax_cross_entropy"}} {}

  Writer& conv(int channels, int kernel) {
    return add({{"type", "conv2d"},
                {"out_channels", channels},
                {"kernel", kernel},
                {"padding", kernel / 2},
                {"bias", false}});
  }
  Writer& norm() { return add({{"type", "batchnorm2d"}}); }
  Writer& relu() { return add({{"type", "relu"}}); }
  Writer& maxpool() { return add({{"type", "maxpool"}, {"kernel", 2}}); }
  Writer& smooth() {
    return add({{"type", "avgpool"}, {"kernel", 3}, {"stride", 1}, {"padding", 1}});
  }
  Writer& linear(int features) { return add({{"type", "linear"}, {"out_features", features}}); }
  /// Two convolutions of 3x3 with norms, and the way around them.
  Writer& block(int channels) {
    return add({{"type", "residual"},
                {"body",
                 {conv("conv1", channels, 3), norm("bn1"), relu("relu1"),
                  conv("conv2", channels, 3), norm("bn2")}}});
  }
  /// One of 3x3 between two of 1x1.
  Writer& bottleneck(int channels, int inner) {
    return add({{"type", "residual"},
                {"body",
                 {conv("conv1", inner, 1), norm("bn1"), relu("relu1"), conv("conv2", inner, 3),
                  norm("bn2"), relu("relu2"), conv("conv3", channels, 1), norm("bn3")}}});
  }
  model::Model finish(bool images) {
    if (images) add({{"type", "global_avgpool"}}).add({{"type", "flatten"}});
    linear(10);
    return model::parse_model(json_.dump(), "a built-in model", nn::layer_types());
  }

 private:
  using Json = nlohmann::json;

  static Json conv(const char* name, int channels, int kernel) {
    return {{"name", name},     {"type", "conv2d"},      {"out_channels", channels},
            {"kernel", kernel}, {"padding", kernel / 2}, {"bias", false}};
  }
  static Json norm(const char* name) { return {{"name", name}, {"type", "batchnorm2d"}}; }
  static Json relu(const char* name) { return {{"name", name}, {"type", "relu"}}; }

  Writer& add(nlohmann::json layer) {
    layer["name"] = fmt::format("layer{}", json_["layers"].size());
    json_["layers"].push_back(std::move(layer));
    return *this;
  }

  nlohmann::json json_;
};

}  // namespace

std::vector<model::Model> mixed_models() {
  std::vector<model::Model> models;
  models.push_back(Writer("conv", {16, 16, 16})
                       .conv(32, 3)
                       .relu()
                       .conv(32, 3)
                       .relu()
                       .maxpool()
                       .conv(64, 3)
                       .relu()
                       .conv(64, 3)
                       .relu()
                       .finish(true));
  models.push_back(Writer("pointwise", {64, 14, 14})
                       .conv(128, 1)
                       .norm()
                       .relu()
                       .conv(64, 1)
                       .norm()
                       .relu()
                       .conv(128, 1)
                       .norm()
                       .relu()
                       .conv(64, 1)
                       .norm()
                       .relu()
                       .finish(true));
  models.push_back(Writer("residual", {32, 12, 12}).block(32).relu().block(32).relu().finish(true));
  models.push_back(Writer("bottleneck", {64, 10, 10})
                       .bottleneck(64, 32)
                       .relu()
                       .bottleneck(64, 32)
                       .relu()
                       .finish(true));
  models.push_back(Writer("middling", {640})
                       .linear(768)
                       .relu()
                       .linear(768)
                       .relu()
                       .linear(512)
                       .relu()
                       .finish(false));
  models.push_back(Writer("wide", {1024}).linear(1536).relu().linear(1536).relu().finish(false));
  models.push_back(Writer("narrow", {256})
                       .linear(384)
                       .relu()
                       .linear(384)
                       .relu()
                       .linear(256)
                       .relu()
                       .finish(false));
  models.push_back(Writer("norm", {16, 24, 24})
                       .norm()
                       .relu()
                       .smooth()
                       .norm()
                       .relu()
                       .smooth()
                       .norm()
                       .relu()
                       .finish(true));
  models.push_back(Writer("large", {32, 56, 56})
                       .norm()
                       .relu()
                       .maxpool()
                       .norm()
                       .relu()
                       .norm()
                       .relu()
                       .finish(true));
  models.push_back(Writer("mixed", {16, 28, 28})
                       .conv(16, 3)
                       .norm()
                       .relu()
                       .maxpool()
                       .conv(32, 3)
                       .norm()
                       .relu()
                       .maxpool()
                       .conv(64, 3)
                       .norm()
                       .relu()
                       .finish(true));
  return models;
}

}  // namespace dynpipe::app
