#pragma once

#include <cstddef>
#include <cstdint>

#include "nn/chain.hpp"
#include "nn/optimizer.hpp"
#include "pipeline/buffer_pool.hpp"
#include "plan/plan.hpp"
#include "schedule/schedule.hpp"

namespace dynpipe::pipeline {

/// A microbatch's arena: what its chain leaves, then, on the last stage, its labels and the
/// gradient of its loss. In bytes.
struct ArenaLayout {
  std::size_t labels = 0, loss_gradient = 0;  ///< where they begin
  std::size_t unused_totals = 0;  ///< where a loss is found again that was counted before
  std::size_t bytes = 0;
};
ArenaLayout arena_layout(const nn::Chain& chain, bool last_stage, std::int64_t max_samples,
                         tensor::DType dtype);

/// The device memory of one rank under a plan, by kind: all that a worker allocates, and nothing
/// else does while it trains (backends keep memory of their own).
struct StageMemory {
  // One a microbatch or group in flight.
  Buffers inputs;                ///< of the stage
  Buffers activations;           ///< arenas
  Buffers outgoing_activations;  ///< where the stage recomputes; else they leave from their arena
  Buffers incoming_gradients;    ///< of the stage's output
  Buffers outgoing_gradients;    ///< of its input
  Buffers deferred_gradients;    ///< between the two parts of a backward
  Buffers gradient_sums;         ///< of weights, and the statistics of each microbatch of the group
  Buffers loss_totals;           ///< on the last stage
  Buffers replica_sums;          ///< parts of the other replicas' gradient sums
  // Of the stage's layers. In bytes.
  Buffers weights;  ///< versions of all parameters
  Buffers optimizer_states;
  std::size_t relaid_weights = 0;  ///< the order of backward passes, where it is another one
  std::size_t running_statistics = 0;
  std::size_t scratch = 0;
  std::size_t loss_messages = 0;  ///< on rank 0

  std::size_t total() const;
};

/// What a rank's streams hold at most, training or evaluating.
schedule::Footprint largest_footprint(const plan::Plan& plan, int rank);

/// The layers of stage s as a chain for microbatches of up to `max_samples`. How its input lies in
/// memory is decided by the layers before it: by the model, not by the plan.
nn::Chain stage_chain(const model::Model& model, const plan::Plan& plan, int s,
                      std::int64_t max_samples, const ops::Ops& ops);

/// Memory of `rank` in microbatches of up to `max_samples`. Pure: allocates nothing; `ops` is asked
/// for its type, layouts and sizes only.
StageMemory stage_memory(const model::Model& model, const plan::Plan& plan, int rank,
                         std::int64_t max_samples, const nn::OptimizerSettings& optimizer,
                         const ops::Ops& ops);

}  // namespace dynpipe::pipeline
