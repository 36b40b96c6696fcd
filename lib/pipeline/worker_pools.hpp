#pragma once

#include "pipeline/stage_memory.hpp"
#include "pipeline/worker.hpp"

namespace dynpipe::pipeline {

/// Key of the loss totals of an evaluation, which has no groups.
constexpr std::int64_t k_evaluation = -1;

/// The stage's memory, in buffers that take turns.
struct Worker::Pools {
  Pools(const StageMemory& memory, const ArenaLayout& layout, device::Device& device)
      : inputs("inputs", device, memory.inputs),
        arenas("activation arenas", device, memory.activations),
        outputs("outgoing activations", device, memory.outgoing_activations),
        gradients("incoming gradients", device, memory.incoming_gradients),
        deferred("deferred gradients", device, memory.deferred_gradients),
        outgoing("outgoing gradients", device, memory.outgoing_gradients),
        sums("gradient sums", device, memory.gradient_sums),
        totals("loss totals", device, memory.loss_totals),
        arena(layout) {}

  BufferPool inputs, arenas, outputs, gradients, deferred, outgoing, sums, totals;
  ArenaLayout arena;
};

}  // namespace dynpipe::pipeline
