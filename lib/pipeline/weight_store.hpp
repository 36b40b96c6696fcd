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
#include "pipeline/weight_snapshot.hpp"
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
  /// `layouts`: those of the layers' parameters, see Chain::parameter_layouts; kept in them are the
  /// versions, the optimizer's state, and the gradients handed to `update`.
  WeightStore(std::span<const model::Layer> layers, std::span<const tensor::Layout> layouts,
              int delay, const nn::OptimizerSettings& optimizer, const ops::Ops& ops,
              device::Device& device);

  /// Whether such parameters need memory beside the versions for other orders.
  static bool relays(std::span<const tensor::Layout> layouts);

  std::int64_t newest() const { return newest_; }
  /// The version that group g uses. Throws std::logic_error where it is not held.
  std::int64_t version_of(std::int64_t group) const;
  nn::Weights weights(std::int64_t version) const;
  /// The same for backward passes, which read some weights in another order: these are re-laid
  /// when a version is asked for that the last call did not ask for.
  nn::Weights weights_for_backward(ops::Ops& ops, device::Stream& stream, std::int64_t version);

  /// Update `newest()`: one optimizer step for every parameter, then newest() + 1 is the newest.
  void update(ops::Ops& ops, device::Stream& stream, double learning_rate,
              std::span<const tensor::Tensor> gradients);
  /// Fold one microbatch's statistics into the running ones.
  void fold(ops::Ops& ops, device::Stream& stream, std::span<const tensor::Tensor> statistics);

  /// Start from these tensors as version `version`, with fresh optimizer state. Takes what it needs
  /// by name; throws InputError naming a tensor that is missing or of another shape. No stream may
  /// be using the store; the work that is launched on `stream` comes before all other.
  void load(ops::Ops& ops, device::Stream& stream, const tensor::StateDict& state,
            std::int64_t version, const std::string& source);
  /// Memory for a snapshot of this store, and for what comes back from one.
  WeightSnapshot make_snapshot(device::Device& device) const;
  /// Launches the copies of all there is now; `into` holds them once the stream has come there.
  void take_snapshot(ops::Ops& ops, device::Stream& stream, WeightSnapshot& into) const;
  /// Go on from a snapshot of a store for the same layers: from all its versions (of which this
  /// store must be able to hold as many) or, where `oldest` is `newest`, from that one alone. No
  /// stream may be using the store; `from` is read until the stream has come so far.
  void restore(ops::Ops& ops, device::Stream& stream, const WeightSnapshot& from);

  /// To be called before `save`, with the streams idle in between: launches what brings the newest
  /// version into plain layout.
  void prepare_save(ops::Ops& ops, device::Stream& stream);
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
  static void copy(ops::Ops& ops, device::Stream& stream, const std::vector<tensor::Tensor>& from,
                   const std::vector<tensor::Tensor>& into);
  /// Where a parameter of `from` lies in plain layout: there, or for the others in `relaid_`.
  std::vector<tensor::Tensor> plain_views(const Flat& from) const;
  bool is_plain(std::size_t parameter) const;

  nn::FlatLayout parameters_, statistics_;
  std::vector<double> momenta_;
  nn::OptimizerSettings optimizer_;
  std::vector<double> decays_;  ///< of each parameter
  tensor::DType dtype_;
  std::vector<Flat> versions_;
  std::vector<Flat> states_;                              ///< one per kind of state
  std::vector<std::vector<tensor::Tensor>> state_views_;  ///< [parameter][kind of state]
  Flat running_;
  /// Of the parameters that are not in plain layout: the order of backward passes, or for a moment
  /// the plain one. Empty if all are plain.
  device::Buffer relaid_;
  std::vector<tensor::Tensor> backward_views_;
  std::int64_t backward_version_ = -1;  ///< that backward_views_ show; -1: none
  std::int64_t base_ = 0, newest_ = 0;
  std::int64_t steps_ = 0;  ///< since the optimizer state was fresh
};

}  // namespace dynpipe::pipeline
