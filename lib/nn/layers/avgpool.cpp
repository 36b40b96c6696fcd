#include <memory>

#include "model/field_reader.hpp"
#include "nn/layers/rows.hpp"
#include "nn/layers/window.hpp"

namespace dynpipe::nn::layers {
namespace {

using ReadWindow = ops::Window (*)(const model::LayerSpec&, const Shape& input);

ops::Window given_window(const model::LayerSpec& spec, const Shape&) {
  model::FieldReader fields(spec);
  const ops::Window window = read_pooling_window(fields);
  fields.done();
  return window;
}

ops::Window whole_image(const model::LayerSpec& spec, const Shape& input) {
  model::FieldReader(spec).done();
  return {.kernel_h = input[1],
          .kernel_w = input[2],
          .stride_h = input[1],
          .stride_w = input[2],
          .pad_h = 0,
          .pad_w = 0};
}

template <ReadWindow read_window>
model::LayerFacts describe(const model::LayerSpec& spec, const Shape& input,
                           const model::LayerTypes&) {
  model::require_rank(spec, input, 3);
  const ops::Window window = read_window(spec, input);
  model::LayerFacts facts;
  facts.output = windowed_shape(spec, window, input, input[0]);
  facts.activation_elements = model::checked_elements(spec, "output elements", facts.output);
  facts.forward_flops = model::checked_count(
      spec, "operations", {window.kernel_h, window.kernel_w, facts.activation_elements});
  return facts;
}

/// y[n,c,i,j] = mean of x[n,c] in the window at (i stride_h - pad_h, j stride_w - pad_w), padding
/// counted as zeros; x [N,C,H,W], y [N,C,H',W'].
class Avgpool final : public Layer {
 public:
  Avgpool(const LayerContext& context, const ops::Window& window)
      : Layer(context.description.input, context.input_layout, context.description.facts.output,
              context.input_layout),
        window_(window) {}

  void forward(const Pass& pass, const Weights&, const Tensor& x, const Tensor& y,
               std::byte*) const override {
    pass.ops.avgpool(pass.stream, window_, x, y);
  }

  void backward(const Pass& pass, const Weights&, const Tensor&, const Tensor&, const Tensor& dy,
                std::byte*, const Gradients&, const Tensor& dx) const override {
    if (dx) pass.ops.avgpool_backward(pass.stream, window_, dy, dx);
  }

 private:
  ops::Window window_;
};

template <ReadWindow read_window>
std::unique_ptr<Layer> make(const LayerContext& context) {
  const model::Layer& layer = context.description;
  return std::make_unique<Avgpool>(context, read_window(layer.spec, layer.input));
}

}  // namespace

LayerType avgpool() {
  return {"avgpool", describe<given_window>, make<given_window>};
}

/// The mean of each channel: [C,H,W] -> [C,1,1].
LayerType global_avgpool() {
  return {"global_avgpool", describe<whole_image>, make<whole_image>};
}

}  // namespace dynpipe::nn::layers
