#include <fmt/format.h>

#include <memory>
#include <string>

#include "base/errors.hpp"
#include "model/field_reader.hpp"
#include "nn/layers/rows.hpp"

namespace dynpipe::nn::layers {
namespace {

struct Options {
  double epsilon, momentum;
};

Options read_options(const model::LayerSpec& spec) {
  model::FieldReader fields(spec);
  Options options{};
  options.epsilon = fields.optional_number("epsilon", 1e-5, 1e-12, 1.0);
  options.momentum = fields.optional_number("momentum", 0.1, 0.0, 1.0);
  fields.done();
  return options;
}

model::LayerFacts describe(const model::LayerSpec& spec, const Shape& input,
                           const model::LayerTypes&) {
  model::require_rank(spec, input, 3);
  const Options options = read_options(spec);
  const Shape per_channel{input[0]};
  // An addition for the mean; a subtraction and a multiply-add for the variance; another for y.
  constexpr std::int64_t k_flops_per_element = 6;
  model::LayerFacts facts;
  facts.output = input;
  facts.forward_flops =
      model::checked_count(spec, "operations", {k_flops_per_element, input.elements()});
  facts.activation_elements = input.elements();
  facts.least_samples = input[1] * input[2] == 1 ? 2 : 1;  // a deviation of one value says nothing
  constexpr model::ParameterKind k_norm = model::ParameterKind::norm;
  facts.parameters = {
      {.name = "weight", .shape = per_channel, .init = model::Init::ones, .kind = k_norm},
      {.name = "bias", .shape = per_channel, .init = model::Init::zeros, .kind = k_norm}};
  facts.statistics = {
      {.name = "running_mean", .shape = per_channel, .initial = 0.0, .momentum = options.momentum},
      {.name = "running_var", .shape = per_channel, .initial = 1.0, .momentum = options.momentum}};
  return facts;
}

/// y = weight (x - mean) / sqrt(variance + epsilon) + bias per channel, x and y [N,C,H,W], the
/// others [C] (Ioffe and Szegedy 2015). In training mean and biased variance are those of the
/// microbatch, over its N H W values; in evaluation the running ones. The statistics handed out for
/// the fold are the mean and the unbiased variance, as in PyTorch. Saves mean and biased variance.
class Batchnorm2d final : public Layer {
 public:
  Batchnorm2d(const LayerContext& context, const Options& options)
      : Layer(context.description.input, context.input_layout, context.description.input,
              context.input_layout),
        place_(context.description.spec.file + ": " + context.description.spec.where),
        epsilon_(options.epsilon),
        dtype_(context.ops.dtype()),
        unused_dx_bytes_(batch_bytes(input(), context.max_samples, dtype_)) {}

  bool fuses_activation() const override { return true; }
  std::size_t saved_bytes() const override { return 2 * channel_bytes(); }
  std::size_t scratch_bytes() const override { return unused_dx_bytes_; }

  void forward(const Pass& pass, const Weights& weights, const Tensor& x, const Tensor& y,
               std::byte* saved) const override {
    const Tensor& gamma = weights.parameters[0];
    const Tensor& beta = weights.parameters[1];
    if (!pass.training) {
      pass.ops.batchnorm_inference(pass.stream, epsilon_, x, gamma, beta, weights.statistics[0],
                                   weights.statistics[1], y, pass.activation);
      return;
    }
    if (x.shape[0] == 0) return;
    require_several_values(x);
    pass.ops.batchnorm(pass.stream, epsilon_, x, gamma, beta, y, mean_in(saved), variance_in(saved),
                       pass.activation);
  }

  void backward(const Pass& pass, const Weights& weights, const Tensor& x, const Tensor&,
                const Tensor& dy, std::byte* saved, const Gradients& gradients,
                const Tensor& dx) const override {
    const Tensor mean = mean_in(saved), variance = variance_in(saved);
    Tensor dx_or_unused = dx;
    if (!dx) {
      dx_or_unused = x;
      dx_or_unused.data = Scratch(pass.scratch).take(unused_dx_bytes_);
    }
    pass.ops.batchnorm_backward(pass.stream, epsilon_, dy, x, weights.parameters[0], mean, variance,
                                dx_or_unused, gradients.accumulate, gradients.parameters[0],
                                gradients.parameters[1]);
    const bool none_to_fold = x.shape[0] == 0 || gradients.statistics.empty();
    if (none_to_fold) return;
    const auto count = static_cast<double>(values_per_channel(x));
    pass.ops.scale(pass.stream, 1.0, mean, gradients.statistics[0]);
    pass.ops.scale(pass.stream, count / (count - 1.0), variance, gradients.statistics[1]);
  }

 private:
  static std::int64_t values_per_channel(const Tensor& x) {
    return x.shape[0] * x.shape[2] * x.shape[3];
  }

  void require_several_values(const Tensor& x) const {
    if (values_per_channel(x) > 1) return;
    throw base::InputError(
        place_, "",
        fmt::format("batch normalisation needs more than one value per channel in training; a "
                    "microbatch of one sample has shape {} here",
                    x.shape.to_string()));
  }

  std::size_t channel_bytes() const { return batch_bytes({input()[0]}, 1, dtype_); }
  Tensor mean_in(std::byte* saved) const {
    return {.data = saved, .dtype = dtype_, .layout = Layout::plain, .shape = {input()[0]}};
  }
  Tensor variance_in(std::byte* saved) const { return mean_in(saved + channel_bytes()); }

  std::string place_;
  double epsilon_;
  tensor::DType dtype_;
  std::size_t unused_dx_bytes_;  ///< for a first stage, which wants no dx
};

}  // namespace

LayerType batchnorm2d() {
  return {"batchnorm2d", describe, [](const LayerContext& context) -> std::unique_ptr<Layer> {
            return std::make_unique<Batchnorm2d>(context, read_options(context.description.spec));
          }};
}

}  // namespace dynpipe::nn::layers
