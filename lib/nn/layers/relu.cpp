#include <memory>

#include "model/field_reader.hpp"
#include "nn/layers/rows.hpp"

namespace dynpipe::nn::layers {
namespace {

model::LayerFacts describe(const model::LayerSpec& spec, const Shape& input,
                           const model::LayerTypes&) {
  model::FieldReader(spec).done();
  model::LayerFacts facts;
  facts.output = input;
  facts.forward_flops = input.elements();
  facts.activation_elements = input.elements();
  return facts;
}

/// y = max(x, 0), of any shape.
class Relu final : public Layer {
 public:
  explicit Relu(const LayerContext& context)
      : Layer(context.description.input, context.input_layout, context.description.input,
              context.input_layout) {}

  ops::Activation as_activation() const override { return ops::Activation::relu; }

  void forward(const Pass& pass, const Weights&, const Tensor& x, const Tensor& y,
               std::byte*) const override {
    pass.ops.relu(pass.stream, x, y);
  }

  void backward(const Pass& pass, const Weights&, const Tensor&, const Tensor& y, const Tensor& dy,
                std::byte*, const Gradients&, const Tensor& dx) const override {
    if (dx) pass.ops.relu_backward(pass.stream, dy, y, dx);
  }
};

}  // namespace

LayerType relu() {
  return {"relu", describe, [](const LayerContext& context) -> std::unique_ptr<Layer> {
            return std::make_unique<Relu>(context);
          }};
}

}  // namespace dynpipe::nn::layers
