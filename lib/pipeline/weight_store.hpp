#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "device/device.hpp"
#include "nn/layer.hpp"
#include "nn/optimizer.hpp"
#include "nn/parameters.hpp"
#include "tensor/state_dict.hpp"

namespace dynpipe::pipeline {

/// A stage's weights in every version that a group in flight may still need, with what belongs to
/// the newest: optimizer state and running statistics.
///
/// Version v is the weights after v updates. With delay tau, group g runs on max(base, g - tau),
/// where base is the version that was loaded. Update g makes version g + 1 from version g; the last
/// user of version g - tau was group g itself, so the new version takes its place: tau + 1 buffers
/// hold all there ever is, version v in buffer v mod (tau + 1).
class WeightStore {
 public:
  WeightStore(std::span<const model::Layer> layers, int delay,
              const nn::OptimizerSettings& optimizer, tensor::DType dtype, device::Device& device);

  std::int64_t newest() const { return newest_; }
  /// The version that group g uses. Throws std::logic_error where it is not held.
  std::int64_t version_of(std::int64_t group) const;
  nn::Weights weights(std::int64_t version) const;

  /// Update `newest()`: one optimizer step for every parameter, then newest() + 1 is the newest.
  void update(ops::Ops& ops, device::Stream& stream, double learning_rate,
              std::span<const tensor::Tensor> gradients);
  /// Fold one microbatch's statistics into the running ones.
  void fold(ops::Ops& ops, device::Stream& stream, std::span<const tensor::Tensor> statistics);

  /// Start from these tensors as version `version`, with fresh optimizer state. Takes what it needs
  /// by name; throws InputError naming a tensor that is missing or of another shape. No stream may
  /// be using the store.
  void load(const tensor::StateDict& state, std::int64_t version, const std::string& source);
  /// The newest version and the running statistics. Streams must be idle.
  tensor::StateDict save() const;

  const nn::FlatLayout& parameters() const { return parameters_; }
  const nn::FlatLayout& statistics() const { return statistics_; }

 private:
  struct Flat {
    device::Buffer buffer;
    std::vector<tensor::Tensor> views;
  };
  Flat allocate(const nn::FlatLayout& layout, device::Device& device) const;
  const Flat& at(std::int64_t version) const;

  nn::FlatLayout parameters_, statistics_;
  std::vector<double> momenta_;
  nn::OptimizerSettings optimizer_;
  tensor::DType dtype_;
  std::vector<Flat> versions_;
  std::vector<Flat> states_;                              ///< one per kind of state
  std::vector<std::vector<tensor::Tensor>> state_views_;  ///< [parameter][kind of state]
  Flat running_;
  std::int64_t base_ = 0, newest_ = 0;
  std::int64_t steps_ = 0;  ///< since the optimizer state was fresh
};

}  // namespace dynpipe::pipeline
