#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/field_reader.hpp"
#include "nn/chain.hpp"
#include "nn/layers/rows.hpp"

namespace dynpipe::nn::layers {
namespace {

struct Branches {
  std::vector<model::Layer> body;
  std::vector<model::Layer> shortcut;  ///< empty: the identity
};

void require_distinct_names(const model::FieldReader& fields,
                            const std::vector<model::LayerSpec>& body,
                            const std::vector<model::LayerSpec>& shortcut) {
  std::set<std::string, std::less<>> names;
  for (const model::LayerSpec& spec : body) names.insert(spec.name);
  for (const model::LayerSpec& spec : shortcut) {
    if (!names.insert(spec.name).second) {
      fields.refuse("shortcut", fmt::format("the name '{}' is taken by the body", spec.name));
    }
  }
}

Branches read_branches(const model::LayerSpec& spec, const Shape& input,
                       const model::LayerTypes& types) {
  model::FieldReader fields(spec);
  std::vector<model::LayerSpec> body = fields.required_layers("body");
  std::vector<model::LayerSpec> shortcut = fields.optional_layers("shortcut");
  fields.done();
  require_distinct_names(fields, body, shortcut);
  return {model::describe_chain(std::move(body), input, types),
          model::describe_chain(std::move(shortcut), input, types)};
}

/// Adds an inner layer's facts to those of its block, under the name it has within the block.
void include(const model::Layer& inner, const std::string& block_name, model::LayerFacts& facts) {
  const std::string prefix = inner.spec.name.substr(block_name.size() + 1) + ".";
  facts.forward_flops += inner.facts.forward_flops;
  facts.activation_elements += inner.facts.activation_elements;
  facts.least_samples = std::max(facts.least_samples, inner.facts.least_samples);
  for (model::ParameterSpec parameter : inner.facts.parameters) {
    parameter.name.insert(0, prefix);
    facts.parameters.push_back(std::move(parameter));
  }
  for (model::StatisticSpec statistic : inner.facts.statistics) {
    statistic.name.insert(0, prefix);
    facts.statistics.push_back(std::move(statistic));
  }
}

model::LayerFacts describe(const model::LayerSpec& spec, const Shape& input,
                           const model::LayerTypes& types) {
  const Branches branches = read_branches(spec, input, types);
  model::LayerFacts facts;
  facts.output = branches.body.back().facts.output;
  const Shape& other = branches.shortcut.empty() ? input : branches.shortcut.back().facts.output;
  if (facts.output != other) {
    model::FieldReader(spec).refuse("", fmt::format("the body gives {} but the shortcut gives {}",
                                                    facts.output.to_string(), other.to_string()));
  }
  facts.forward_flops = facts.output.elements();
  facts.activation_elements = facts.output.elements();
  for (const model::Layer& inner : branches.body) include(inner, spec.name, facts);
  for (const model::Layer& inner : branches.shortcut) include(inner, spec.name, facts);
  return facts;
}

/// y = body(x) + shortcut(x) (He et al. 2016). Saves the activations of both.
class Residual final : public Layer {
 public:
  Residual(const LayerContext& context, Chain body, std::optional<Chain> shortcut)
      : Layer(context.description.input, context.input_layout, context.description.facts.output,
              body.output_layout()),
        body_(std::move(body)),
        shortcut_(std::move(shortcut)),
        input_bytes_(batch_bytes(input(), context.max_samples, context.ops.dtype())),
        output_bytes_(batch_bytes(output(), context.max_samples, context.ops.dtype())) {}

  Layout parameter_layout(std::size_t index) const override {
    const std::size_t of_body = body_.portion().parameters;
    return index < of_body ? body_.parameter_layouts()[index]
                           : shortcut_->parameter_layouts()[index - of_body];
  }
  bool fuses_activation() const override { return true; }

  std::size_t saved_bytes() const override {
    return body_.arena_bytes() + (shortcut_ ? shortcut_->arena_bytes() : 0);
  }

  std::size_t scratch_bytes() const override {
    const std::size_t inside =
        std::max(body_.scratch_bytes(), shortcut_ ? shortcut_->scratch_bytes() : 0);
    return input_bytes_ + output_bytes_ + inside;
  }

  void forward(const Pass& pass, const Weights& weights, const Tensor& x, const Tensor& y,
               std::byte* saved) const override {
    const std::int64_t n = x.shape[0];
    body_.forward(pass, body_.portion().of(weights), x, saved);
    const Tensor body = body_.output_in(saved, n);
    Tensor other = x;
    if (shortcut_) {
      shortcut_->forward(pass, shortcut_portion().of(weights), x, shortcut_arena(saved));
      other = shortcut_->output_in(shortcut_arena(saved), n);
    }
    if (other.layout != y.layout) {
      pass.ops.reorder(pass.stream, other, y);
      other = y;
    }
    pass.ops.add(pass.stream, body, other, y, pass.activation);
  }

  void backward(const Pass& pass, const Weights& weights, const Tensor& x, const Tensor&,
                const Tensor& dy, std::byte* saved, const Gradients& gradients,
                const Tensor& dx) const override {
    body_.backward(pass, body_.portion().of(weights), x, dy, saved, body_.portion().of(gradients),
                   dx);
    add_other_branch(
        pass, dy, dx, [&](const Pass& inner, const Tensor& branch_dy, const Tensor& branch_dx) {
          shortcut_->backward(inner, shortcut_portion().of(weights), x, branch_dy,
                              shortcut_arena(saved), shortcut_portion().of(gradients), branch_dx);
        });
  }

  bool defers() const override { return body_.defers() || (shortcut_ && shortcut_->defers()); }

  std::size_t deferred_bytes() const override {
    return body_.deferred_bytes() + (shortcut_ ? shortcut_->deferred_bytes() : 0);
  }

  void backward_input(const Pass& pass, const Weights& weights, const Tensor& x, const Tensor&,
                      const Tensor& dy, std::byte* saved, const Gradients& gradients,
                      const Tensor& dx, std::byte* deferred) const override {
    body_.backward_input(pass, body_.portion().of(weights), x, dy, saved,
                         body_.portion().of(gradients), dx, deferred);
    add_other_branch(
        pass, dy, dx, [&](const Pass& inner, const Tensor& branch_dy, const Tensor& branch_dx) {
          shortcut_->backward_input(inner, shortcut_portion().of(weights), x, branch_dy,
                                    shortcut_arena(saved), shortcut_portion().of(gradients),
                                    branch_dx, shortcut_deferred(deferred));
        });
  }

  void backward_weights(const Pass& pass, const Tensor& x, const Tensor& dy, std::byte* saved,
                        const Gradients& gradients, std::byte* deferred) const override {
    body_.backward_weights(pass, x, dy, saved, body_.portion().of(gradients), deferred);
    if (!shortcut_) return;
    Pass inner = pass;
    const Tensor branch_dy = in_layout(inner, dy, shortcut_->output_layout(), output_bytes_);
    shortcut_->backward_weights(inner, x, branch_dy, shortcut_arena(saved),
                                shortcut_portion().of(gradients), shortcut_deferred(deferred));
  }

 private:
  /// dx += the other branch's part of it. `shortcut_backward(pass, dy, dx)` leaves that of the
  /// shortcut in scratch memory, and its gradients.
  template <typename ShortcutBackward>
  void add_other_branch(const Pass& pass, const Tensor& dy, const Tensor& dx,
                        const ShortcutBackward& shortcut_backward) const {
    Pass inner = pass;
    Tensor other_dx = dx;
    if (shortcut_) {
      const Tensor branch_dy = in_layout(inner, dy, shortcut_->output_layout(), output_bytes_);
      if (dx) other_dx.data = inner.scratch.take(input_bytes_);
      shortcut_backward(inner, branch_dy, other_dx);
    } else if (dx) {
      other_dx = in_layout(inner, dy, dx.layout, input_bytes_);
    }
    if (dx) pass.ops.add(pass.stream, dx, other_dx, dx, ops::Activation::none);
  }

  /// The tensor itself, or its copy in scratch memory where that layout is another one.
  static Tensor in_layout(Pass& pass, const Tensor& from, Layout layout, std::size_t bytes) {
    if (from.layout == layout) return from;
    Tensor to = from;
    to.layout = layout;
    to.data = pass.scratch.take(bytes);
    pass.ops.reorder(pass.stream, from, to);
    return to;
  }

  std::byte* shortcut_arena(std::byte* saved) const { return saved + body_.arena_bytes(); }
  std::byte* shortcut_deferred(std::byte* deferred) const {
    return deferred + body_.deferred_bytes();
  }
  Portion shortcut_portion() const { return shortcut_->portion().after(body_.portion()); }

  Chain body_;
  std::optional<Chain> shortcut_;  ///< none: the identity
  std::size_t input_bytes_, output_bytes_;
};

std::unique_ptr<Layer> make(const LayerContext& context) {
  const model::Layer& layer = context.description;
  const Branches branches = read_branches(layer.spec, layer.input, context.types);
  const auto chain_of = [&context](const std::vector<model::Layer>& layers) {
    return Chain(layers, context.input_layout, context.max_samples, context.ops, context.types);
  };
  std::optional<Chain> shortcut;
  if (!branches.shortcut.empty()) shortcut = chain_of(branches.shortcut);
  return std::make_unique<Residual>(context, chain_of(branches.body), std::move(shortcut));
}

}  // namespace

LayerType residual() {
  return {"residual", describe, make};
}

}  // namespace dynpipe::nn::layers
