#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/model.hpp"
#include "tensor/state_dict.hpp"
#include "tensor/tensor.hpp"

namespace dynpipe::nn {

/// Where each of a list of named tensors lies in one flat buffer, every one aligned to 64 bytes.
class FlatLayout {
 public:
  struct Entry {
    std::string layer, tensor;  ///< "conv1", "weight"
    base::Shape shape;
    std::int64_t offset;  ///< in elements
    tensor::Layout layout;

    /// "conv1.weight"
    std::string name() const { return layer + "." + tensor; }
  };

  void append(std::string layer, std::string tensor, const base::Shape& shape,
              tensor::Layout layout = tensor::Layout::plain);
  const std::vector<Entry>& entries() const { return entries_; }
  /// Length of the buffer, a multiple of 16.
  std::int64_t elements() const { return elements_; }
  /// Views of a buffer laid out so.
  std::vector<tensor::Tensor> views(std::byte* data, tensor::DType dtype) const;
  /// The same places, every tensor in plain layout.
  FlatLayout in_plain() const;

 private:
  std::vector<Entry> entries_;
  std::int64_t elements_ = 0;
};

/// Layouts of the parameters, or running statistics, of layers in order. `layouts`: of each
/// parameter, see Chain::parameter_layouts.
FlatLayout parameter_layout(std::span<const model::Layer> layers,
                            std::span<const tensor::Layout> layouts);
FlatLayout statistic_layout(std::span<const model::Layer> layers);

/// Momentum of each running statistic, in the order of `statistic_layout`.
std::vector<double> statistic_momenta(std::span<const model::Layer> layers);

/// Parameters and statistics as training starts: drawn from (seed, name), so that any plan starts
/// alike.
tensor::StateDict initial_state(std::span<const model::Layer> layers, std::uint64_t seed);

}  // namespace dynpipe::nn
