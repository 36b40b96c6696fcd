#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nn/layer.hpp"

namespace dynpipe::nn {

/// Which of a flat list's parameters and statistics belong to a layer or a chain.
struct Portion {
  std::size_t first_parameter = 0, parameters = 0;
  std::size_t first_statistic = 0, statistics = 0;

  /// This many, following those of `previous`.
  Portion after(const Portion& previous) const;
  /// Lists of statistics may be missing (empty); the portion of such a list is empty.
  Weights of(const Weights& all) const;
  Gradients of(const Gradients& all) const;
};

/// Layers one after another: a stage of the pipeline, or the inside of a block.
///
/// A microbatch's activations live in one arena of `arena_bytes()`: every layer's output and what
/// it saved. Where a layer is but an activation and the one before it can do it too, the two share
/// one output, which is written once; it has the bits that two would have. Weights, gradients and
/// statistics are flat lists in the order of the layers.
class Chain {
 public:
  /// `layers` (at least one) for microbatches of up to `max_samples`; they are not kept.
  Chain(std::span<const model::Layer> layers, Layout input_layout, std::int64_t max_samples,
        const Ops& ops, const model::LayerTypes& types);

  const Shape& input() const { return layers_.front().layer->input(); }   ///< of one sample
  const Shape& output() const { return layers_.back().layer->output(); }  ///< of one sample
  Layout input_layout() const { return layers_.front().layer->input_layout(); }
  Layout output_layout() const { return layers_.back().layer->output_layout(); }
  int size() const { return static_cast<int>(layers_.size()); }
  /// All of the chain's parameters and statistics.
  Portion portion() const;

  /// The layouts in which its layers want their parameters, and the gradients of these.
  const std::vector<Layout>& parameter_layouts() const { return parameter_layouts_; }

  std::size_t arena_bytes() const { return arena_bytes_; }
  /// The part of it that a layer adds.
  std::size_t arena_bytes_of(std::size_t layer) const { return layers_[layer].arena_bytes; }
  /// Whether a layer's forward is done by the one before it.
  bool joined(std::size_t layer) const { return layers_[layer].done_before; }
  std::size_t scratch_bytes() const;

  /// The last layer's output within an arena, for a microbatch of n samples.
  Tensor output_in(std::byte* arena, std::int64_t n) const;

  void forward(const Pass& pass, const Weights& weights, const Tensor& x, std::byte* arena) const;
  /// dy is only read; dx may be empty.
  void backward(const Pass& pass, const Weights& weights, const Tensor& x, const Tensor& dy,
                std::byte* arena, const Gradients& gradients, const Tensor& dx) const;

  /// Whether a split backward pass leaves anything to its weight part.
  bool defers() const;
  /// Memory of a microbatch from its input part to its weight part: what came down to the layers
  /// that defer. dy itself is the caller's to keep.
  std::size_t deferred_bytes() const { return deferred_bytes_; }
  /// `backward` in two parts, see Layer::backward_input. x, dy, the arena and `deferred` stay as
  /// they are from one to the other. The two may have different `gradients.accumulate`.
  void backward_input(const Pass& pass, const Weights& weights, const Tensor& x, const Tensor& dy,
                      std::byte* arena, const Gradients& gradients, const Tensor& dx,
                      std::byte* deferred) const;
  void backward_weights(const Pass& pass, const Tensor& x, const Tensor& dy, std::byte* arena,
                        const Gradients& gradients, std::byte* deferred) const;

 private:
  struct Slot {
    std::unique_ptr<Layer> layer;
    Portion portion;
    std::size_t output_offset, saved_offset;  ///< in an arena
    /// In deferred memory: the gradient of its output, and what the layer itself defers.
    std::size_t gradient_offset, deferred_offset;
    std::size_t arena_bytes;     ///< that it adds to an arena
    ops::Activation activation;  ///< that the layer does for the next
    bool done_before;            ///< its forward, by the layer before it
  };
  enum class Part : bool { whole, input };
  void backward_layers(Part part, const Pass& pass, const Weights& weights, const Tensor& x,
                       const Tensor& dy, std::byte* arena, const Gradients& gradients,
                       const Tensor& dx, std::byte* deferred) const;
  Tensor input_of(std::size_t index, const Tensor& x, std::byte* arena) const;

  Tensor output_of(const Slot& slot, std::byte* arena, std::int64_t n) const;

  std::vector<Slot> layers_;
  std::vector<Layout> parameter_layouts_;
  tensor::DType dtype_;
  std::size_t arena_bytes_ = 0;
  std::size_t deferred_bytes_ = 0;
  std::size_t layer_scratch_bytes_ = 0;  ///< of the layer that takes most
  /// Gradients between layers alternate between two buffers: what layer i hands down is in i % 2.
  std::array<std::size_t, 2> gradient_bytes_{};
  std::size_t first_trainable_ = 0;  ///< no layer before it has parameters
};

}  // namespace dynpipe::nn
