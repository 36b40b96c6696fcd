#include "nn/chain.hpp"

#include <algorithm>
#include <stdexcept>

namespace dynpipe::nn {
namespace {

std::span<const Tensor> part(std::span<const Tensor> all, std::size_t first, std::size_t count) {
  return all.empty() ? all : all.subspan(first, count);
}

void poll(const Pass& pass) {
  if (pass.between_layers != nullptr) (*pass.between_layers)();
}

/// As the layers of the chain see it: what is inside them is no layer of its own.
Pass inside(const Pass& pass) {
  Pass inner = pass;
  inner.after_layer = nullptr;
  return inner;
}

void tell(const Pass& pass, std::size_t layer) {
  if (pass.after_layer != nullptr) (*pass.after_layer)(layer);
}

}  // namespace

Portion Portion::after(const Portion& previous) const {
  return {previous.first_parameter + previous.parameters, parameters,
          previous.first_statistic + previous.statistics, statistics};
}

Weights Portion::of(const Weights& all) const {
  return {part(all.parameters, first_parameter, parameters),
          part(all.statistics, first_statistic, statistics),
          part(all.backward_parameters, first_parameter, parameters)};
}

Gradients Portion::of(const Gradients& all) const {
  return {part(all.parameters, first_parameter, parameters), all.accumulate,
          part(all.statistics, first_statistic, statistics)};
}

Chain::Chain(std::span<const model::Layer> layers, Layout input_layout, std::int64_t max_samples,
             const Ops& ops, const model::LayerTypes& types)
    : dtype_(ops.dtype()) {
  if (layers.empty()) throw std::logic_error("a chain has at least one layer");
  layers_.reserve(layers.size());
  Layout layout = input_layout;
  Portion portion;
  for (const model::Layer& description : layers) {
    const std::size_t index = layers_.size();
    std::unique_ptr<Layer> layer = make_layer({description, layout, max_samples, ops, types});
    layout = layer->output_layout();
    portion = Portion{.parameters = description.facts.parameters.size(),
                      .statistics = description.facts.statistics.size()}
                  .after(portion);
    if (index == first_trainable_ && portion.parameters == 0) ++first_trainable_;
    if (index > 0) {
      std::size_t& buffer = gradient_bytes_[index % 2];
      buffer = std::max(buffer, batch_bytes(layer->input(), max_samples, dtype_));
    }
    layer_scratch_bytes_ = std::max(layer_scratch_bytes_, device::aligned(layer->scratch_bytes()));
    for (std::size_t p = 0; p < portion.parameters; ++p) {
      parameter_layouts_.push_back(layer->parameter_layout(p));
    }
    const bool fused = index > 0 && layer->as_activation() != ops::Activation::none &&
                       layers_.back().layer->fuses_activation();
    if (fused) layers_.back().activation = layer->as_activation();
    const std::size_t output_offset = fused ? layers_.back().output_offset : arena_bytes_;
    const std::size_t saved_offset =
        fused ? arena_bytes_ : output_offset + batch_bytes(layer->output(), max_samples, dtype_);
    const std::size_t arena_before = arena_bytes_;
    arena_bytes_ = saved_offset + device::aligned(layer->saved_bytes());
    const std::size_t gradient_offset = deferred_bytes_;
    const bool keeps_gradient = layer->defers() && index + 1 < layers.size();
    const std::size_t deferred_offset =
        gradient_offset + (keeps_gradient ? batch_bytes(layer->output(), max_samples, dtype_) : 0);
    deferred_bytes_ = deferred_offset + device::aligned(layer->deferred_bytes());
    layers_.push_back({std::move(layer), portion, output_offset, saved_offset, gradient_offset,
                       deferred_offset, arena_bytes_ - arena_before, ops::Activation::none, fused});
  }
}

Portion Chain::portion() const {
  const Portion& last = layers_.back().portion;
  return {0, last.first_parameter + last.parameters, 0, last.first_statistic + last.statistics};
}

std::size_t Chain::scratch_bytes() const {
  return gradient_bytes_[0] + gradient_bytes_[1] + layer_scratch_bytes_;
}

Tensor Chain::output_in(std::byte* arena, std::int64_t n) const {
  return output_of(layers_.back(), arena, n);
}

void Chain::forward(const Pass& pass, const Weights& weights, const Tensor& x,
                    std::byte* arena) const {
  Tensor in = x;
  Pass inner = inside(pass);
  for (std::size_t index = 0; index < layers_.size(); ++index) {
    const Slot& slot = layers_[index];
    if (slot.done_before) continue;
    if (index > 0) poll(pass);
    const Tensor out = output_of(slot, arena, x.shape[0]);
    inner.activation = slot.activation;
    slot.layer->forward(inner, slot.portion.of(weights), in, out, arena + slot.saved_offset);
    tell(pass, index);
    in = out;
  }
}

void Chain::backward(const Pass& pass, const Weights& weights, const Tensor& x, const Tensor& dy,
                     std::byte* arena, const Gradients& gradients, const Tensor& dx) const {
  backward_layers(Part::whole, pass, weights, x, dy, arena, gradients, dx, nullptr);
}

void Chain::backward_input(const Pass& pass, const Weights& weights, const Tensor& x,
                           const Tensor& dy, std::byte* arena, const Gradients& gradients,
                           const Tensor& dx, std::byte* deferred) const {
  backward_layers(Part::input, pass, weights, x, dy, arena, gradients, dx, deferred);
}

bool Chain::defers() const {
  return std::any_of(layers_.begin(), layers_.end(),
                     [](const Slot& slot) { return slot.layer->defers(); });
}

void Chain::backward_weights(const Pass& pass, const Tensor& x, const Tensor& dy, std::byte* arena,
                             const Gradients& gradients, std::byte* deferred) const {
  const Pass inner = inside(pass);
  bool first = true;
  for (std::size_t index = layers_.size(); index-- > 0;) {
    const Slot& slot = layers_[index];
    if (!slot.layer->defers()) continue;
    if (!first) poll(pass);
    first = false;
    Tensor out_gradient = dy;
    if (index + 1 < layers_.size()) {
      out_gradient = output_of(slot, arena, x.shape[0]);
      out_gradient.data = deferred + slot.gradient_offset;
    }
    slot.layer->backward_weights(inner, input_of(index, x, arena), out_gradient,
                                 arena + slot.saved_offset, slot.portion.of(gradients),
                                 deferred + slot.deferred_offset);
    tell(pass, index);
  }
}

void Chain::backward_layers(Part part, const Pass& pass, const Weights& weights, const Tensor& x,
                            const Tensor& dy, std::byte* arena, const Gradients& gradients,
                            const Tensor& dx, std::byte* deferred) const {
  const std::int64_t n = x.shape[0];
  Pass inner = inside(pass);
  const std::array<std::byte*, 2> buffers{inner.scratch.take(gradient_bytes_[0]),
                                          inner.scratch.take(gradient_bytes_[1])};
  // Without dx, what lies before the first parameters has nothing to find out.
  const std::size_t last = dx ? 0 : first_trainable_;
  Tensor out_gradient = dy;
  for (std::size_t index = layers_.size(); index-- > last;) {
    const Slot& slot = layers_[index];
    const Tensor in = input_of(index, x, arena);
    const Tensor out = output_of(slot, arena, n);
    Tensor in_gradient = dx;
    if (index > last) {
      const Slot& below = layers_[index - 1];
      const bool kept = part == Part::input && below.layer->defers();
      in_gradient = in;
      in_gradient.data = kept ? deferred + below.gradient_offset : buffers[index % 2];
    }
    std::byte* const saved = arena + slot.saved_offset;
    if (part == Part::input) {
      slot.layer->backward_input(inner, slot.portion.of(weights), in, out, out_gradient, saved,
                                 slot.portion.of(gradients), in_gradient,
                                 deferred + slot.deferred_offset);
    } else {
      slot.layer->backward(inner, slot.portion.of(weights), in, out, out_gradient, saved,
                           slot.portion.of(gradients), in_gradient);
    }
    tell(pass, index);
    out_gradient = in_gradient;
    if (index > last) poll(pass);
  }
}

Tensor Chain::input_of(std::size_t index, const Tensor& x, std::byte* arena) const {
  return index == 0 ? x : output_of(layers_[index - 1], arena, x.shape[0]);
}

Tensor Chain::output_of(const Slot& slot, std::byte* arena, std::int64_t n) const {
  return {.data = arena + slot.output_offset,
          .dtype = dtype_,
          .layout = slot.layer->output_layout(),
          .shape = slot.layer->output().with_batch(n)};
}

}  // namespace dynpipe::nn
