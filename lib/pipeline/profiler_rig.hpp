#pragma once

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
  LayerSeconds forward;
  LayerSeconds backward;                         ///< whole ones
  LayerSeconds backward_input, backward_weight;  ///< split ones
  LayerSeconds update;
};

enum class Backwards : bool { whole, split };

/// Some layers of a model, next to each other, as a stage that trains by itself: its inputs and
/// output gradients are always there. With a stopwatch on every layer.
class ProfilerRig {
 public:
  struct Range {
    std::size_t first = 0, last = 0;  ///< layers, both included
    int ahead = 0;                    ///< forwards before the first backward
  };
  /// `input_layout`: as the layers before leave it.
  ProfilerRig(const LayerProfilerSetup& setup, device::Stream& stream, const Range& range,
              tensor::Layout input_layout);

  /// The layers for microbatches of up to n samples.
  nn::Chain chain(std::int64_t n) const;
  /// Where one of `inputs()` is kept, of the largest size, and the gradient of its output.
  tensor::Tensor input(int kept) const;
  tensor::Tensor output_gradient(int kept) const;
  static constexpr int k_inputs = 4;
  /// Runs the layers forward from a kept input (the first ones: from a new one): where the output
  /// is then.
  tensor::Tensor fill_forward(int kept);
  /// And back, from its kept gradient (the last ones: from the loss): where the gradient of the
  /// input is then. Empty for the first layers.
  tensor::Tensor fill_backward(int kept);

  /// Runs a group of so many microbatches of n samples. `chain` is one of `chain(n)`.
  GroupSeconds run_group(const nn::Chain& chain, std::int64_t n, int microbatches,
                         Backwards backwards);
  /// Bytes and names, without times.
  std::vector<model::LayerProfile> facts() const;

 private:
  using Tensor = tensor::Tensor;
  using Views = std::vector<Tensor>;

  bool first() const { return range_.first == 0; }
  bool last() const { return range_.last + 1 == setup_.model.layers.size(); }
  std::span<const model::Layer> layers() const;
  /// A microbatch on its way: how many samples, where among the kept.
  struct Flight {
    const nn::Chain& chain;
    std::int64_t n;
    int microbatch;
  };
  void forward(const Flight& flight, LayerSeconds& times);
  void backward(const Flight& flight, Backwards backwards, GroupSeconds& times);
  void find_loss(const Flight& flight);
  void lay_weights(LayerSeconds& relaying);
  void update(int microbatches, LayerSeconds& times);
  nn::Pass pass(std::int64_t n) const;
  nn::Weights weights() const { return {parameters_, running_, backward_parameters_}; }
  Tensor input_of(const Flight& flight) const;
  Tensor output_gradient_of(const Flight& flight) const;
  Tensor input_gradient_of(const Flight& flight) const;
  std::byte* arena_of(const Flight& flight) const;
  /// From now on time goes to the layers of `into`.
  void start(LayerSeconds& into);
  /// The time since the last call, or since `start`, is that layer's.
  void charge(std::size_t layer);

  const LayerProfilerSetup setup_;
  device::Stream& stream_;
  Range range_;
  tensor::Layout input_layout_;
  std::int64_t largest_;
  nn::Chain largest_chain_;
  std::vector<WeightStore> stores_;  ///< of each layer
  std::vector<nn::Portion> portions_;
  std::vector<device::Buffer> inputs_, output_gradients_, arenas_;
  device::Buffer input_gradient_, scratch_, deferred_, gradients_memory_, statistics_memory_,
      totals_;
  Views gradients_, statistics_;
  std::vector<std::uint64_t> sample_numbers_;
  /// Of the version that the group under way uses.
  Views parameters_, running_, backward_parameters_;

  std::function<void(std::size_t)> after_layer_ = [this](std::size_t layer) { charge(layer); };
  LayerSeconds* into_ = nullptr;
  double since_s_ = 0;
};

}  // namespace dynpipe::pipeline
