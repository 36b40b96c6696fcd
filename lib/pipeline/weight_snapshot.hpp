#pragma once

#include <cstdint>
#include <vector>

#include "device/device.hpp"
#include "tensor/tensor.hpp"

namespace dynpipe::pipeline {

/// The training state of a stage's layers after some updates, in memory of its own and in plain
/// layout: what a checkpoint keeps and a migration moves. Made by WeightStore::make_snapshot, whose
/// `parameters` and `statistics` name its tensors in order.
struct WeightSnapshot {
  struct Set {
    device::Buffer buffer;
    std::vector<tensor::Tensor> views;
  };

  std::int64_t oldest = 0, newest = 0;  ///< versions in it
  std::int64_t optimizer_steps = 0;     ///< since the optimizer's state was fresh
  std::vector<Set> versions;            ///< version v in [v - oldest]; those beyond newest are void
  std::vector<Set> states;              ///< the optimizer's, by kind of state
  Set statistics;
};

}  // namespace dynpipe::pipeline
