#include <memory>

#include "model/field_reader.hpp"
#include "nn/layers/rows.hpp"
#include "nn/layers/window.hpp"

namespace dynpipe::nn::layers {
namespace {

ops::Window read_options(const model::LayerSpec& spec) {
  model::FieldReader fields(spec);
  const ops::Window window = read_pooling_window(fields);
  fields.done();
  return window;
}

model::LayerFacts describe(const model::LayerSpec& spec, const Shape& input,
                           const model::LayerTypes&) {
  model::require_rank(spec, input, 3);
  const ops::Window window = read_options(spec);
  model::LayerFacts facts;
  facts.output = windowed_shape(spec, window, input, input[0]);
  const std::int64_t outputs = model::checked_elements(spec, "output elements", facts.output);
  facts.forward_flops =
      model::checked_count(spec, "operations", {window.kernel_h, window.kernel_w, outputs});
  facts.activation_elements = 2 * outputs;  // the output, and which element of the window it was
  return facts;
}

/// y[n,c,i,j] = max of x[n,c] in the window at (i stride_h - pad_h, j stride_w - pad_w);
/// x [N,C,H,W], y [N,C,H',W']. Saves the place of each maximum.
class Maxpool final : public Layer {
 public:
  Maxpool(const LayerContext& context, const ops::Window& window)
      : Layer(context.description.input, context.input_layout, context.description.facts.output,
              context.input_layout),
        window_(window),
        choice_bytes_(context.ops.maxpool_choice_bytes(
            window, input().with_batch(context.max_samples),
            output().with_batch(context.max_samples), context.input_layout)) {}

  std::size_t saved_bytes() const override { return choice_bytes_; }

  void forward(const Pass& pass, const Weights&, const Tensor& x, const Tensor& y,
               std::byte* saved) const override {
    pass.ops.maxpool(pass.stream, window_, x, y, saved);
  }

  void backward(const Pass& pass, const Weights&, const Tensor&, const Tensor&, const Tensor& dy,
                std::byte* saved, const Gradients&, const Tensor& dx) const override {
    if (dx) pass.ops.maxpool_backward(pass.stream, window_, dy, saved, dx);
  }

 private:
  ops::Window window_;
  std::size_t choice_bytes_;
};

}  // namespace

LayerType maxpool() {
  return {"maxpool", describe, [](const LayerContext& context) -> std::unique_ptr<Layer> {
            return std::make_unique<Maxpool>(context, read_options(context.description.spec));
          }};
}

}  // namespace dynpipe::nn::layers
