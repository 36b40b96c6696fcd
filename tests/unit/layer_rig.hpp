#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "device/cpu/cpu_device.hpp"
#include "nn/chain.hpp"
#include "nn/layer.hpp"

/// What the tests of layers and chains share: tensors on the host, and lists of layers from JSON.
namespace dynpipe::nn {

/// A float64 tensor with its own memory, plain.
class Array {
 public:
  explicit Array(const Shape& shape, double value = std::numeric_limits<double>::quiet_NaN())
      : values_(static_cast<std::size_t>(shape.elements()), value), shape_(shape) {}

  /// Uniform in [-1, 1).
  static Array random(const Shape& shape, const std::string& purpose) {
    Array array(shape);
    const base::Philox generator(7, purpose);
    for (std::size_t i = 0; i < array.values_.size(); ++i) {
      array.values_[i] = 2.0 * generator.uniform(i) - 1.0;
    }
    return array;
  }

  /// Distinct values in [-1, 1) in random order, spaced evenly with none nearer to zero than half
  /// the spacing: no small step changes which is larger, or a sign.
  static Array spaced(const Shape& shape, const std::string& purpose) {
    Array array(shape);
    const base::Philox generator(7, purpose);
    const std::size_t count = array.values_.size();
    for (std::size_t i = 0; i < count; ++i) {
      const auto j = static_cast<std::size_t>(generator.below(i, i + 1));
      array.values_[i] = array.values_[j];
      array.values_[j] =
          (static_cast<double>(i) + 0.5) * 2.0 / static_cast<double>(count + count % 2) - 1.0;
    }
    return array;
  }

  Tensor tensor() {
    // One element of an empty tensor keeps the view from looking absent.
    if (values_.empty()) values_.reserve(1);
    return {.data = reinterpret_cast<std::byte*>(values_.data()),
            .dtype = tensor::DType::float64,
            .layout = Layout::plain,
            .shape = shape_};
  }
  std::vector<double>& values() { return values_; }
  const std::vector<double>& values() const { return values_; }
  void fill(double value) { values_.assign(values_.size(), value); }

 private:
  std::vector<double> values_;
  Shape shape_;
};

/// Tensors as weights and gradients are handed over: a list of views.
class ArrayList {
 public:
  void push_back(Array array) {
    arrays_.push_back(std::move(array));
    views_.push_back(arrays_.back().tensor());
  }
  std::size_t size() const { return arrays_.size(); }
  Array& operator[](std::size_t index) { return arrays_[index]; }
  void fill(double value) {
    for (Array& array : arrays_) array.fill(value);
  }
  std::vector<std::vector<double>> values() const {
    std::vector<std::vector<double>> all;
    for (const Array& array : arrays_) all.push_back(array.values());
    return all;
  }
  std::span<const Tensor> views() const { return views_; }

 private:
  std::vector<Array> arrays_;  // moving an array leaves its memory where it is
  std::vector<Tensor> views_;
};

/// Memory full of NaN, so that what is read before it is written shows.
inline std::vector<double> poisoned(std::size_t bytes) {
  return std::vector<double>(bytes / sizeof(double) + 1, std::numeric_limits<double>::quiet_NaN());
}
inline std::byte* bytes_of(std::vector<double>& memory) {
  return reinterpret_cast<std::byte*>(memory.data());
}

inline Tensor batch_view(std::vector<double>& memory, const Shape& sample, std::int64_t n) {
  return {.data = bytes_of(memory),
          .dtype = tensor::DType::float64,
          .layout = Layout::plain,
          .shape = sample.with_batch(n)};
}

/// The described layers of a JSON array.
inline std::vector<model::Layer> described(const std::string& layers, const Shape& input) {
  return model::describe_chain(
      model::parse_layer_specs(nlohmann::json::parse(layers), "", "test.json", "layers"), input,
      layer_types());
}

/// Weights, gradients and statistics for layers, with random weights.
struct Tensors {
  ArrayList parameters, running, gradients, statistics;

  explicit Tensors(std::span<const model::Layer> layers) {
    for (const model::Layer& layer : layers) {
      for (const model::ParameterSpec& spec : layer.facts.parameters) {
        parameters.push_back(Array::random(spec.shape, layer.spec.name + "." + spec.name));
        gradients.push_back(Array(spec.shape));
      }
      for (const model::StatisticSpec& spec : layer.facts.statistics) {
        running.push_back(Array(spec.shape, spec.initial));
        statistics.push_back(Array(spec.shape));
      }
    }
  }
  Weights weights() const { return {parameters.views(), running.views()}; }
  Gradients gradient_views(ops::Accumulate accumulate = ops::Accumulate::set) const {
    return {gradients.views(), accumulate, statistics.views()};
  }
};

}  // namespace dynpipe::nn
