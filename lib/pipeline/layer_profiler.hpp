#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "device/device.hpp"
#include "model/model.hpp"
#include "model/profile.hpp"
#include "nn/optimizer.hpp"
#include "ops/ops.hpp"

namespace dynpipe::pipeline {

/// What is measured, and with what. What is referred to outlives the profiler.
struct LayerProfilerSetup {
  const model::Model& model;
  device::Device& device;
  ops::Ops& ops;  ///< the profiler's alone
  const base::Clock& clock;
  nn::OptimizerSettings optimizer;
  std::int64_t batch = 1;             ///< samples of an update group
  std::vector<std::int64_t> samples;  ///< microbatch sizes, rising
  int stages = 1;                     ///< of the pipelines that the profile is for, about
  int first_stage = 0;                ///< that a sweep begins with: neighbours begin with others
  std::uint64_t seed = 1;             ///< of the weights
  /// Leaves a microbatch of images in x [N, input of the model], plain, as training would.
  std::function<void(const tensor::Tensor& x)> write_input;
  /// What a worker does between two layers: moves messages on. May be empty.
  std::function<void()> between_layers;
};

/// Times the layers of a model as they are in training: in chains, with what is fused and what the
/// caches hold there, gradients that add up over a group, weights in two versions that take turns.
/// The model is cut into stages of about equal FLOPs (never before an activation that the layer
/// before does), and every stage runs by itself, with as many microbatches in flight as in an
/// asynchronous pipeline: what a layer finds in the caches depends on what else its rank does.
///
/// To the first layer's forward belongs writing its input, to the last one's the loss and its
/// gradient. What happens once a group is a layer's update: the optimizer, its weights re-laid for
/// backward passes, its statistics folded. Where both parts of a backward are one step, their sum
/// is that step's time, divided as the parts take when they are two.
///
/// Weights stay as they were drawn (the learning rate is 0), so that every group does the same.
class LayerProfiler {
 public:
  explicit LayerProfiler(const LayerProfilerSetup& setup);
  ~LayerProfiler();

  /// Runs groups of every stage and size in turn, each for at least `slice_s` seconds and two
  /// groups, of which the first, with cold caches, does not count.
  void sweep(double slice_s);
  int stages() const;
  /// How far the whole model's time may be off, of the least certain size: the standard error of
  /// the medians over groups, relative to it, from the distance of the quartiles. 1 before there
  /// are five groups of each.
  double uncertainty() const;
  /// Of the stage and size where it is largest: distance of the quartiles over the median.
  double spread() const;
  /// Groups of the stage and size with fewest.
  int groups() const;
  /// Medians over groups of a microbatch's mean time in its group: what a neighbour disturbs less
  /// than half of the time does not move them. They are scaled so that they sum to the median of
  /// the whole pass, since medians of parts do not. Call after a `sweep`.
  std::vector<model::LayerProfile> layers() const;

 private:
  class Measurement;
  struct Stage;
  const LayerProfilerSetup setup_;
  std::unique_ptr<device::Stream> stream_;
  std::vector<std::unique_ptr<Stage>> stages_;
};

}  // namespace dynpipe::pipeline
