#include "pipeline/weight_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "base/errors.hpp"
#include "tensor/host_copy.hpp"

namespace dynpipe::pipeline {

WeightStore::WeightStore(std::span<const model::Layer> layers,
                         std::span<const tensor::Layout> layouts, int delay,
                         const nn::OptimizerSettings& optimizer, const ops::Ops& ops,
                         device::Device& device)
    : parameters_(nn::parameter_layout(layers, layouts)),
      statistics_(nn::statistic_layout(layers)),
      momenta_(nn::statistic_momenta(layers)),
      optimizer_(optimizer),
      decays_(nn::weight_decays(layers, optimizer)),
      dtype_(ops.dtype()),
      running_(allocate(statistics_, device)) {
  for (int v = 0; v <= delay; ++v) versions_.push_back(allocate(parameters_, device));
  for (int i = 0; i < optimizer.states(); ++i) states_.push_back(allocate(parameters_, device));
  state_views_.resize(parameters_.entries().size());
  for (std::size_t p = 0; p < state_views_.size(); ++p) {
    for (const Flat& state : states_) state_views_[p].push_back(state.views[p]);
  }
  if (!relays(layouts)) return;
  relaid_ =
      device.allocate(static_cast<std::size_t>(parameters_.elements()) * tensor::size_of(dtype_));
  backward_views_ = parameters_.views(relaid_.data(), dtype_);
  for (tensor::Tensor& view : backward_views_) {
    view.layout = ops.backward_weights_layout(view.layout);
  }
}

bool WeightStore::relays(std::span<const tensor::Layout> layouts) {
  return std::any_of(layouts.begin(), layouts.end(),
                     [](tensor::Layout layout) { return layout != tensor::Layout::plain; });
}

bool WeightStore::is_plain(std::size_t parameter) const {
  return parameters_.entries()[parameter].layout == tensor::Layout::plain;
}

WeightStore::Flat WeightStore::allocate(const nn::FlatLayout& layout,
                                        device::Device& device) const {
  Flat flat;
  flat.buffer =
      device.allocate(static_cast<std::size_t>(layout.elements()) * tensor::size_of(dtype_));
  flat.views = layout.views(flat.buffer.data(), dtype_);
  return flat;
}

const WeightStore::Flat& WeightStore::at(std::int64_t version) const {
  return versions_[static_cast<std::size_t>(version) % versions_.size()];
}

std::int64_t WeightStore::version_of(std::int64_t group) const {
  const auto delay = static_cast<std::int64_t>(versions_.size()) - 1;
  const std::int64_t version = std::max(base_, group - delay);
  if (version > newest_ || version < newest_ - delay) {
    throw std::logic_error(
        fmt::format("group {} needs version {}, the newest is {}", group, version, newest_));
  }
  return version;
}

nn::Weights WeightStore::weights(std::int64_t version) const {
  return {at(version).views, running_.views};
}

nn::Weights WeightStore::weights_for_backward(ops::Ops& ops, device::Stream& stream,
                                              std::int64_t version) {
  const Flat& flat = at(version);
  if (backward_views_.empty()) return weights(version);
  if (version != backward_version_) {
    for (std::size_t p = 0; p < flat.views.size(); ++p) {
      const tensor::Layout from = flat.views[p].layout;
      tensor::Tensor& view = backward_views_[p];
      if (ops.backward_weights_layout(from) == from) {
        view = flat.views[p];
      } else {
        ops.reorder_weights(stream, flat.views[p], view);
      }
    }
    backward_version_ = version;
  }
  return {flat.views, running_.views, backward_views_};
}

std::vector<tensor::Tensor> WeightStore::plain_views(const Flat& from) const {
  std::vector<tensor::Tensor> plain = from.views;
  const auto relaid = relaid_.data() == nullptr
                          ? std::vector<tensor::Tensor>{}
                          : parameters_.in_plain().views(relaid_.data(), dtype_);
  for (std::size_t p = 0; p < plain.size(); ++p) {
    if (!is_plain(p)) plain[p] = relaid[p];
  }
  return plain;
}

void WeightStore::update(ops::Ops& ops, device::Stream& stream, double learning_rate,
                         std::span<const tensor::Tensor> gradients) {
  const Flat& from = at(newest_);
  const Flat& into = at(newest_ + 1);
  const nn::OptimizerStep step(optimizer_, learning_rate, steps_);
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    step.apply(ops, stream, decays_[p], from.views[p], gradients[p], state_views_[p],
               into.views[p]);
  }
  ++newest_;
  ++steps_;
}

void WeightStore::fold(ops::Ops& ops, device::Stream& stream,
                       std::span<const tensor::Tensor> statistics) {
  for (std::size_t i = 0; i < statistics.size(); ++i) {
    ops.fold(stream, momenta_[i], statistics[i], running_.views[i]);
  }
}

void WeightStore::load(ops::Ops& ops, device::Stream& stream, const tensor::StateDict& state,
                       std::int64_t version, const std::string& source) {
  const auto take = [&](const nn::FlatLayout& layout, const std::vector<tensor::Tensor>& views) {
    for (std::size_t i = 0; i < views.size(); ++i) {
      const auto& entry = layout.entries()[i];
      const auto found = state.find(entry.name());
      if (found == state.end()) throw base::InputError(source, entry.name(), "is missing");
      if (!(found->second.shape == entry.shape)) {
        throw base::InputError(
            source, entry.name(),
            fmt::format("has shape {}, the model needs {}", found->second.shape.to_string(),
                        entry.shape.to_string()));
      }
      tensor::from_host(found->second, views[i]);
    }
  };
  base_ = newest_ = version;
  steps_ = 0;
  take(statistics_, running_.views);
  const std::vector<tensor::Tensor> plain = plain_views(at(version));
  take(parameters_, plain);
  for (std::size_t p = 0; p < plain.size(); ++p) {
    if (!is_plain(p)) ops.reorder_weights(stream, plain[p], at(version).views[p]);
  }
  backward_version_ = -1;
  for (const Flat& flat : states_) std::memset(flat.buffer.data(), 0, flat.buffer.bytes());
}

void WeightStore::prepare_save(ops::Ops& ops, device::Stream& stream) {
  const std::vector<tensor::Tensor> plain = plain_views(at(newest_));
  for (std::size_t p = 0; p < plain.size(); ++p) {
    if (!is_plain(p)) ops.reorder_weights(stream, at(newest_).views[p], plain[p]);
  }
  backward_version_ = -1;
}

WeightSnapshot WeightStore::make_snapshot(device::Device& device) const {
  const auto set = [&](const nn::FlatLayout& layout) {
    Flat flat = allocate(layout.in_plain(), device);
    // So that its pages are there when training waits for a copy.
    std::memset(flat.buffer.data(), 0, flat.buffer.bytes());
    return WeightSnapshot::Set{std::move(flat.buffer), std::move(flat.views)};
  };
  WeightSnapshot snapshot;
  for (std::size_t v = 0; v < versions_.size(); ++v) snapshot.versions.push_back(set(parameters_));
  for (std::size_t i = 0; i < states_.size(); ++i) snapshot.states.push_back(set(parameters_));
  snapshot.statistics = set(statistics_);
  return snapshot;
}

void WeightStore::take_snapshot(ops::Ops& ops, device::Stream& stream, WeightSnapshot& into) const {
  into.newest = newest_;
  into.oldest = std::max(base_, newest_ + 1 - static_cast<std::int64_t>(versions_.size()));
  into.optimizer_steps = steps_;
  for (std::int64_t v = into.oldest; v <= into.newest; ++v) {
    copy(ops, stream, at(v).views, into.versions[static_cast<std::size_t>(v - into.oldest)].views);
  }
  for (std::size_t i = 0; i < states_.size(); ++i) {
    copy(ops, stream, states_[i].views, into.states[i].views);
  }
  copy(ops, stream, running_.views, into.statistics.views);
}

void WeightStore::restore(ops::Ops& ops, device::Stream& stream, const WeightSnapshot& from) {
  base_ = from.oldest;
  newest_ = from.newest;
  steps_ = from.optimizer_steps;
  backward_version_ = -1;
  for (std::int64_t v = from.oldest; v <= from.newest; ++v) {
    copy(ops, stream, from.versions[static_cast<std::size_t>(v - from.oldest)].views, at(v).views);
  }
  for (std::size_t i = 0; i < states_.size(); ++i) {
    copy(ops, stream, from.states[i].views, states_[i].views);
  }
  copy(ops, stream, from.statistics.views, running_.views);
}

void WeightStore::copy(ops::Ops& ops, device::Stream& stream,
                       const std::vector<tensor::Tensor>& from,
                       const std::vector<tensor::Tensor>& into) {
  for (std::size_t i = 0; i < from.size(); ++i) ops.reorder_weights(stream, from[i], into[i]);
}

tensor::StateDict WeightStore::save() const {
  tensor::StateDict state;
  const auto put = [&](const nn::FlatLayout& layout, const std::vector<tensor::Tensor>& views) {
    for (std::size_t i = 0; i < views.size(); ++i) {
      state[layout.entries()[i].name()] = tensor::to_host(views[i]);
    }
  };
  put(parameters_, plain_views(at(newest_)));
  put(statistics_, running_.views);
  return state;
}

}  // namespace dynpipe::pipeline
