#include <memory>

#include "model/field_reader.hpp"
#include "nn/layers/rows.hpp"

namespace dynpipe::nn::layers {
namespace {

model::LayerFacts describe(const model::LayerSpec& spec, const Shape& input,
                           const model::LayerTypes&) {
  model::require_rank(spec, input, 3);
  model::FieldReader(spec).done();
  model::LayerFacts facts;
  facts.output = {input.elements()};
  facts.activation_elements = input.elements();
  return facts;
}

/// x [N,C,H,W] -> y [N,C H W], in row-major order whatever the layout of x.
class Flatten final : public Layer {
 public:
  explicit Flatten(const LayerContext& context)
      : Layer(context.description.input, context.input_layout, context.description.facts.output,
              Layout::plain) {}

  void forward(const Pass& pass, const Weights&, const Tensor& x, const Tensor& y,
               std::byte*) const override {
    pass.ops.reorder(pass.stream, x, as_images(y));
  }

  void backward(const Pass& pass, const Weights&, const Tensor&, const Tensor&, const Tensor& dy,
                std::byte*, const Gradients&, const Tensor& dx) const override {
    if (dx) pass.ops.reorder(pass.stream, as_images(dy), dx);
  }

 private:
  /// The same plain memory, seen as [N,C,H,W].
  Tensor as_images(Tensor features) const {
    features.shape = input().with_batch(features.shape[0]);
    return features;
  }
};

}  // namespace

LayerType flatten() {
  return {"flatten", describe, [](const LayerContext& context) -> std::unique_ptr<Layer> {
            return std::make_unique<Flatten>(context);
          }};
}

}  // namespace dynpipe::nn::layers
