#include <memory>

#include "model/field_reader.hpp"
#include "nn/layers/rows.hpp"
#include "nn/layers/window.hpp"

namespace dynpipe::nn::layers {
namespace {

struct Options {
  std::int64_t out_channels;
  ops::Window window;
  bool bias;
  Shape output;
};

Options read_options(const model::LayerSpec& spec, const Shape& input) {
  model::require_rank(spec, input, 3);
  model::FieldReader fields(spec);
  Options options{};
  options.out_channels = fields.required_int("out_channels", 1);
  options.window = read_convolution_window(fields);
  options.bias = fields.optional_bool("bias", true);
  fields.done();
  options.output = windowed_shape(spec, options.window, input, options.out_channels);
  return options;
}

model::LayerFacts describe(const model::LayerSpec& spec, const Shape& input,
                           const model::LayerTypes&) {
  const Options options = read_options(spec, input);
  const ops::Window& window = options.window;
  const std::int64_t fan_in =
      model::checked_count(spec, "weights", {input[0], window.kernel_h, window.kernel_w});
  model::LayerFacts facts;
  facts.output = options.output;
  facts.activation_elements = model::checked_elements(spec, "output elements", facts.output);
  facts.forward_flops =
      model::checked_count(spec, "operations", {2, fan_in, facts.activation_elements});
  facts.parameters.push_back(
      {.name = "weight",
       .shape = {options.out_channels, input[0], window.kernel_h, window.kernel_w},
       .init = model::Init::he_normal,
       .fan_in = fan_in});
  if (options.bias) {
    facts.parameters.push_back(
        {.name = "bias", .shape = {options.out_channels}, .kind = model::ParameterKind::bias});
  }
  return facts;
}

/// y[n,o,i,j] = b[o] + sum over c,u,v of w[o,c,u,v] x[n,c, i stride_h + u - pad_h, j stride_w + v -
/// pad_w], x [N,C,H,W] zero outside, w [O,C,KH,KW], b [O], y [N,O,H',W'].
class Conv2d final : public Layer {
 public:
  Conv2d(const LayerContext& context, const Options& options)
      : Layer(context.description.input, context.input_layout, options.output,
              context.ops.preferred_layout(options.output)),
        window_(options.window),
        has_bias_(options.bias),
        weights_layout_(context.ops.preferred_weights_layout(
            window_, context.description.facts.parameters[0].shape, input_layout(),
            output_layout())) {}

  Layout parameter_layout(std::size_t index) const override {
    return index == 0 ? weights_layout_ : Layout::plain;
  }
  bool fuses_activation() const override { return true; }

  void forward(const Pass& pass, const Weights& weights, const Tensor& x, const Tensor& y,
               std::byte*) const override {
    pass.ops.conv2d(pass.stream, window_, x, weights.parameters[0], bias_of(weights.parameters), y,
                    pass.activation);
  }

  void backward(const Pass& pass, const Weights& weights, const Tensor& x, const Tensor& y,
                const Tensor& dy, std::byte* saved, const Gradients& gradients,
                const Tensor& dx) const override {
    backward_weights(pass, x, dy, saved, gradients, nullptr);
    backward_input(pass, weights, x, y, dy, saved, gradients, dx, nullptr);
  }

  bool defers() const override { return true; }

  void backward_input(const Pass& pass, const Weights& weights, const Tensor&, const Tensor&,
                      const Tensor& dy, std::byte*, const Gradients&, const Tensor& dx,
                      std::byte*) const override {
    if (dx) pass.ops.conv2d_backward_input(pass.stream, window_, dy, weights.for_backward(0), dx);
  }

  void backward_weights(const Pass& pass, const Tensor& x, const Tensor& dy, std::byte*,
                        const Gradients& gradients, std::byte*) const override {
    pass.ops.conv2d_backward_weights(pass.stream, window_, dy, x, gradients.accumulate,
                                     gradients.parameters[0], bias_of(gradients.parameters));
  }

 private:
  Tensor bias_of(std::span<const Tensor> parameters) const {
    return has_bias_ ? parameters[1] : Tensor{};
  }

  ops::Window window_;
  bool has_bias_;
  Layout weights_layout_;
};

}  // namespace

LayerType conv2d() {
  return {"conv2d", describe, [](const LayerContext& context) -> std::unique_ptr<Layer> {
            const model::Layer& layer = context.description;
            return std::make_unique<Conv2d>(context, read_options(layer.spec, layer.input));
          }};
}

}  // namespace dynpipe::nn::layers
