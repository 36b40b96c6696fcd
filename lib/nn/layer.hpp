#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "base/shape.hpp"
#include "model/model.hpp"
#include "ops/ops.hpp"

namespace dynpipe::nn {

using base::Shape;
using ops::Ops;
using tensor::Layout;
using tensor::Tensor;

/// Device memory handed down a call tree, taken from the front; given back when the call returns,
/// since every caller keeps its own copy of this value. Never allocates.
class Scratch {
 public:
  Scratch() = default;
  Scratch(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}
  /// `bytes` of memory, aligned to 64. Throws std::logic_error where a layer takes more than its
  /// `scratch_bytes` said.
  std::byte* take(std::size_t bytes);

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// What a pass over one microbatch may know besides its tensors.
struct Pass {
  Ops& ops;
  device::Stream& stream;
  bool training = true;
  std::uint64_t seed = 0;  ///< of the run
  std::int64_t epoch = 0;
  /// Number in the data set of each sample of the microbatch; lives until the pass has run.
  std::span<const std::uint64_t> samples = {};
  Scratch scratch = {};
  /// Called between the layers of a chain: where messages in flight are moved on. May be null.
  const std::function<void()>* between_layers = nullptr;
  /// Called by the outermost chain when it has launched a layer's step, with the layer's place in
  /// it: for those who time layers. May be null.
  const std::function<void(std::size_t)>* after_layer = nullptr;
  /// What a layer that `fuses_activation` does to its output before it writes it (forward only).
  ops::Activation activation = ops::Activation::none;
};

/// A layer's weights of one version: views, in the order of LayerFacts.
struct Weights {
  std::span<const Tensor> parameters;
  std::span<const Tensor> statistics;  ///< running statistics; read in evaluation only
  /// The parameters again, in the order in which a backward pass had rather read them; empty: as
  /// they are.
  std::span<const Tensor> backward_parameters = {};

  const Tensor& for_backward(std::size_t parameter) const {
    return backward_parameters.empty() ? parameters[parameter] : backward_parameters[parameter];
  }
};

/// Where a backward pass leaves what it found.
struct Gradients {
  std::span<const Tensor> parameters;
  ops::Accumulate accumulate = ops::Accumulate::set;
  /// This microbatch's own value of each running statistic, for the fold at the update.
  std::span<const Tensor> statistics;
};

/// A function of weights. It holds its options and shapes and no state: what a microbatch's
/// backward needs from its forward is in the input and output, which the caller keeps, and in
/// `saved`. With N = 0 samples every call is legal and gradients are set to zero under `set`.
class Layer {
 public:
  virtual ~Layer() = default;

  const Shape& input() const { return input_; }    ///< of one sample
  const Shape& output() const { return output_; }  ///< of one sample
  Layout input_layout() const { return input_layout_; }
  Layout output_layout() const { return output_layout_; }

  /// The layout in which the layer wants its parameter number `index`, and its gradient.
  virtual Layout parameter_layout(std::size_t /*index*/) const { return Layout::plain; }
  /// Whether `forward` heeds `Pass::activation`. Its backward then never reads y: it is the
  /// activation's output.
  virtual bool fuses_activation() const { return false; }
  /// The activation that is all this layer does, so that the layer before may do it; or none.
  virtual ops::Activation as_activation() const { return ops::Activation::none; }
  /// Bytes kept from a microbatch's forward to its backward besides x and y.
  virtual std::size_t saved_bytes() const { return 0; }
  /// Bytes that either pass takes from `Pass::scratch` at most.
  virtual std::size_t scratch_bytes() const { return 0; }

  /// x [N, input()] -> y [N, output()].
  virtual void forward(const Pass& pass, const Weights& weights, const Tensor& x, const Tensor& y,
                       std::byte* saved) const = 0;
  /// dy [N, output()] -> dx [N, input()] (skipped where dx is empty) and gradients. `weights` are
  /// those of the forward. dy is only read.
  virtual void backward(const Pass& pass, const Weights& weights, const Tensor& x, const Tensor& y,
                        const Tensor& dy, std::byte* saved, const Gradients& gradients,
                        const Tensor& dx) const = 0;

  /// Whether a split backward pass leaves gradients to `backward_weights`: layers that find them
  /// along with dx (batch norm) leave nothing.
  virtual bool defers() const { return false; }
  /// Bytes kept from the input part to the weight part besides x, dy and `saved`.
  virtual std::size_t deferred_bytes() const { return 0; }
  /// The first part of a split backward pass: dx (skipped where it is empty), and the gradients of
  /// what is not deferred. Followed by `backward_weights` with the same tensors, at any later time,
  /// it gives the bits of `backward`; x, dy and what is saved and deferred stay as they are until
  /// then.
  virtual void backward_input(const Pass& pass, const Weights& weights, const Tensor& x,
                              const Tensor& y, const Tensor& dy, std::byte* saved,
                              const Gradients& gradients, const Tensor& dx,
                              std::byte* /*deferred*/) const {
    backward(pass, weights, x, y, dy, saved, gradients, dx);
  }
  /// The second part: the gradients that are left.
  virtual void backward_weights(const Pass&, const Tensor& /*x*/, const Tensor& /*dy*/,
                                std::byte* /*saved*/, const Gradients&,
                                std::byte* /*deferred*/) const {}

 protected:
  Layer(const Shape& input, Layout input_layout, const Shape& output, Layout output_layout)
      : input_(input),
        output_(output),
        input_layout_(input_layout),
        output_layout_(output_layout) {}

 private:
  Shape input_, output_;
  Layout input_layout_, output_layout_;
};

/// Bytes of a batch of `samples` such tensors, rounded up to the alignment of buffers.
std::size_t batch_bytes(const Shape& sample, std::int64_t samples, tensor::DType dtype);

/// What a layer is made from: its description, and how its input lies in memory.
struct LayerContext {
  const model::Layer& description;
  Layout input_layout;
  std::int64_t
      max_samples;  ///< of a microbatch: sizes of saved and scratch memory are for this many
  const Ops& ops;   ///< asked for layouts and sizes only, never kept
  const model::LayerTypes& types;
};

using MakeLayer = std::unique_ptr<Layer> (*)(const LayerContext&);

/// A row of the table of layer types: a type's name in model files, how it is described, how it is
/// made.
struct LayerType {
  std::string_view name;
  model::LayerFacts (*describe)(const model::LayerSpec&, const Shape& input,
                                const model::LayerTypes&);
  MakeLayer make;
};

/// All layer types; a new layer is one file in layers/ and one row here, declared in
/// layers/rows.hpp.
std::span<const LayerType> layer_table();
/// The table as `model` takes it.
const model::LayerTypes& layer_types();
/// Throws std::logic_error for a type that is not in the table (parsing has refused it before).
std::unique_ptr<Layer> make_layer(const LayerContext& context);

}  // namespace dynpipe::nn
