#include <memory>
#include <string>

#include "model/field_reader.hpp"
#include "nn/layers/rows.hpp"

namespace dynpipe::nn::layers {
namespace {

double read_options(const model::LayerSpec& spec) {
  model::FieldReader fields(spec);
  const double p = fields.optional_number("p", 0.5, 0.0, 1.0);
  fields.done();
  return p;
}

model::LayerFacts describe(const model::LayerSpec& spec, const Shape& input,
                           const model::LayerTypes&) {
  read_options(spec);
  model::LayerFacts facts;
  facts.output = input;
  facts.forward_flops = input.elements();
  facts.activation_elements = input.elements();
  return facts;
}

/// In training y = x keep / (1 - p), of any shape, where `keep` is 1 with probability 1 - p, else
/// 0; in evaluation y = x (Srivastava et al. 2014, scaled in training as PyTorch does). What is
/// kept depends on (seed, layer name, epoch, sample, element) alone, so backward draws it again
/// instead of saving it.
class Dropout final : public Layer {
 public:
  Dropout(const LayerContext& context, double p)
      : Layer(context.description.input, context.input_layout, context.description.input,
              context.input_layout),
        purpose_("dropout " + context.description.spec.name),
        p_(p) {}

  void forward(const Pass& pass, const Weights&, const Tensor& x, const Tensor& y,
               std::byte*) const override {
    apply(pass, x, y);
  }

  void backward(const Pass& pass, const Weights&, const Tensor&, const Tensor&, const Tensor& dy,
                std::byte*, const Gradients&, const Tensor& dx) const override {
    if (dx) apply(pass, dy, dx);
  }

 private:
  void apply(const Pass& pass, const Tensor& from, const Tensor& to) const {
    if (pass.training) {
      const base::Philox key(pass.seed, purpose_, static_cast<std::uint64_t>(pass.epoch));
      pass.ops.dropout(pass.stream, p_, key, pass.samples, from, to);
    } else {
      pass.ops.reorder(pass.stream, from, to);
    }
  }

  std::string purpose_;  ///< of its random numbers
  double p_;
};

}  // namespace

LayerType dropout() {
  return {"dropout", describe, [](const LayerContext& context) -> std::unique_ptr<Layer> {
            return std::make_unique<Dropout>(context, read_options(context.description.spec));
          }};
}

}  // namespace dynpipe::nn::layers
