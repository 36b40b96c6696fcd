#include <memory>

#include "model/field_reader.hpp"
#include "nn/layers/rows.hpp"

namespace dynpipe::nn::layers {
namespace {

struct Options {
  std::int64_t out_features;
  bool bias;
};

Options read_options(const model::LayerSpec& spec) {
  model::FieldReader fields(spec);
  Options options{};
  options.out_features = fields.required_int("out_features", 1);
  options.bias = fields.optional_bool("bias", true);
  fields.done();
  return options;
}

model::LayerFacts describe(const model::LayerSpec& spec, const Shape& input,
                           const model::LayerTypes&) {
  model::require_rank(spec, input, 1);
  const Options options = read_options(spec);
  const std::int64_t in_features = input[0];
  model::LayerFacts facts;
  facts.output = {options.out_features};
  facts.activation_elements = options.out_features;
  facts.forward_flops =
      model::checked_count(spec, "operations", {2, in_features, options.out_features});
  facts.parameters.push_back({.name = "weight",
                              .shape = {options.out_features, in_features},
                              .init = model::Init::he_normal,
                              .fan_in = in_features});
  if (options.bias) {
    facts.parameters.push_back(
        {.name = "bias", .shape = {options.out_features}, .kind = model::ParameterKind::bias});
  }
  return facts;
}

/// y = x w^T + b, x [N,I], w [O,I], b [O], y [N,O].
class Linear final : public Layer {
 public:
  Linear(const LayerContext& context, const Options& options)
      : Layer(context.description.input, Layout::plain, context.description.facts.output,
              Layout::plain),
        has_bias_(options.bias) {}

  void forward(const Pass& pass, const Weights& weights, const Tensor& x, const Tensor& y,
               std::byte*) const override {
    pass.ops.linear(pass.stream, x, weights.parameters[0], bias_of(weights.parameters), y);
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
    if (dx) pass.ops.linear_backward_input(pass.stream, dy, weights.parameters[0], dx);
  }

  void backward_weights(const Pass& pass, const Tensor& x, const Tensor& dy, std::byte*,
                        const Gradients& gradients, std::byte*) const override {
    pass.ops.linear_backward_weights(pass.stream, dy, x, gradients.accumulate,
                                     gradients.parameters[0], bias_of(gradients.parameters));
  }

 private:
  Tensor bias_of(std::span<const Tensor> parameters) const {
    return has_bias_ ? parameters[1] : Tensor{};
  }

  bool has_bias_;
};

}  // namespace

LayerType linear() {
  return {"linear", describe, [](const LayerContext& context) -> std::unique_ptr<Layer> {
            return std::make_unique<Linear>(context, read_options(context.description.spec));
          }};
}

}  // namespace dynpipe::nn::layers
