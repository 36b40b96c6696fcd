#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "nn/chain.hpp"
#include "pipeline/layer_profiler.hpp"
#include "pipeline/weight_store.hpp"

namespace dynpipe::pipeline {

/// Seconds by layer.
using LayerSeconds = std::vector<double>;

/// What one group took: steps of all its microbatches together, and what happens once a group.
struct GroupSeconds {
  int microbatches = 0;
  LayerSeconds forward;
  LayerSeconds backward;                         ///< whole ones
  LayerSeconds backward_input, backward_weight;  ///< split ones
  LayerSeconds update;
};

enum class Backwards : bool { whole, split };

/// Memory and weights to train a whole model in one place, with a stopwatch on every layer.
class ProfilerRig {
 public:
  explicit ProfilerRig(const LayerProfilerSetup& setup);

  /// The model for microbatches of up to n samples.
  nn::Chain chain(std::int64_t n) const;
  /// Runs a group of so many microbatches of n samples: a forward ahead, then forwards and
  /// backwards in turn, then the update. `chain` is one of `chain(n)`.
  GroupSeconds run_group(const nn::Chain& chain, std::int64_t n, int microbatches,
                         Backwards backwards);
  /// Bytes and names, without times.
  std::vector<model::LayerProfile> facts() const;

 private:
  static constexpr int k_in_flight = 2;
  using Tensor = tensor::Tensor;
  using Views = std::vector<Tensor>;

  void forward(const nn::Chain& chain, std::int64_t n, int microbatch, GroupSeconds& times);
  void backward(const nn::Chain& chain, std::int64_t n, int microbatch, Backwards backwards,
                GroupSeconds& times);
  void lay_weights(LayerSeconds& relaying);
  void update(int microbatches, LayerSeconds& times);
  nn::Pass pass(std::int64_t n) const;
  nn::Weights weights() const { return {parameters_, running_, backward_parameters_}; }
  Tensor input(std::int64_t n, int microbatch) const;
  Tensor loss_gradient(const nn::Chain& chain, std::int64_t n, int microbatch) const;
  device::Buffer allocate(std::size_t bytes) const;
  /// From now on time goes to the layers of `into`.
  void start(LayerSeconds& into);
  /// The time since the last call, or since `start`, is that layer's.
  void charge(std::size_t layer);

  const LayerProfilerSetup setup_;
  std::unique_ptr<device::Stream> stream_;
  std::int64_t largest_;
  std::vector<WeightStore> stores_;  ///< of each layer
  std::vector<nn::Portion> portions_;
  std::array<device::Buffer, k_in_flight> inputs_, arenas_;
  device::Buffer scratch_, deferred_, gradients_memory_, statistics_memory_, totals_;
  Views gradients_, statistics_;
  std::vector<std::uint64_t> sample_numbers_;
  /// Of the version that the group under way uses.
  Views parameters_, running_, backward_parameters_;

  std::function<void(std::size_t)> after_layer_ = [this](std::size_t layer) { charge(layer); };
  LayerSeconds* into_ = nullptr;
  double since_s_ = 0;
};

}  // namespace dynpipe::pipeline
