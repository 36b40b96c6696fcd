#include "nn/parameters.hpp"

#include <cmath>

#include "base/random.hpp"

namespace dynpipe::nn {
namespace {

std::string full_name(const model::Layer& layer, const std::string& own) {
  return layer.spec.name + "." + own;
}

std::vector<double> initial_values(const model::ParameterSpec& spec, const std::string& name,
                                   std::uint64_t seed) {
  const auto count = static_cast<std::size_t>(spec.shape.elements());
  switch (spec.init) {
    case model::Init::zeros:
      return std::vector<double>(count, 0.0);
    case model::Init::ones:
      return std::vector<double>(count, 1.0);
    case model::Init::he_normal:
      break;
  }
  const base::Philox random(seed, "init " + name);
  const double deviation = std::sqrt(2.0 / static_cast<double>(spec.fan_in));
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = deviation * random.normal(i);
  return values;
}

}  // namespace

void FlatLayout::append(std::string layer, std::string tensor, const base::Shape& shape,
                        tensor::Layout layout) {
  entries_.push_back({std::move(layer), std::move(tensor), shape, elements_, layout});
  elements_ += (shape.elements() + 15) / 16 * 16;
}

std::vector<tensor::Tensor> FlatLayout::views(std::byte* data, tensor::DType dtype) const {
  std::vector<tensor::Tensor> views;
  for (const Entry& entry : entries_) {
    views.push_back({data + static_cast<std::size_t>(entry.offset) * tensor::size_of(dtype), dtype,
                     entry.layout, entry.shape});
  }
  return views;
}

FlatLayout FlatLayout::in_plain() const {
  FlatLayout plain = *this;
  for (Entry& entry : plain.entries_) entry.layout = tensor::Layout::plain;
  return plain;
}

FlatLayout parameter_layout(std::span<const model::Layer> layers,
                            std::span<const tensor::Layout> layouts) {
  FlatLayout layout;
  auto next = layouts.begin();
  for (const model::Layer& layer : layers) {
    for (const auto& spec : layer.facts.parameters) {
      layout.append(layer.spec.name, spec.name, spec.shape, *next++);
    }
  }
  return layout;
}

FlatLayout statistic_layout(std::span<const model::Layer> layers) {
  FlatLayout layout;
  for (const model::Layer& layer : layers) {
    for (const auto& spec : layer.facts.statistics) {
      layout.append(layer.spec.name, spec.name, spec.shape);
    }
  }
  return layout;
}

std::vector<double> statistic_momenta(std::span<const model::Layer> layers) {
  std::vector<double> momenta;
  for (const model::Layer& layer : layers) {
    for (const auto& spec : layer.facts.statistics) momenta.push_back(spec.momentum);
  }
  return momenta;
}

tensor::StateDict initial_state(std::span<const model::Layer> layers, std::uint64_t seed) {
  tensor::StateDict state;
  for (const model::Layer& layer : layers) {
    for (const auto& spec : layer.facts.parameters) {
      const std::string name = full_name(layer, spec.name);
      state[name] = {spec.shape, initial_values(spec, name, seed)};
    }
    for (const auto& spec : layer.facts.statistics) {
      const auto count = static_cast<std::size_t>(spec.shape.elements());
      state[full_name(layer, spec.name)] = {spec.shape, std::vector<double>(count, spec.initial)};
    }
  }
  return state;
}

}  // namespace dynpipe::nn
