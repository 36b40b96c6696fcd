#include "pipeline/stage_memory.hpp"

#include <algorithm>

#include "comm/ordered_sum.hpp"
#include "nn/parameters.hpp"
#include "pipeline/metrics_link.hpp"
#include "pipeline/weight_store.hpp"

namespace dynpipe::pipeline {
namespace {

constexpr std::size_t k_totals_bytes = 2 * sizeof(double);  // sum of losses, number correct
/// So that one may be filled while another leaves.
constexpr int k_leaving_in_turns = 2;

/// Of a batch, without the padding of `nn::batch_bytes`: the length of messages.
std::size_t unpadded_bytes(const base::Shape& sample, std::int64_t samples, tensor::DType dtype) {
  return static_cast<std::size_t>(sample.elements() * samples) * tensor::size_of(dtype);
}

/// Groups whose loss is on its way at once: as many as the last stage is ahead, and some for
/// messages that are slow to leave.
int loss_totals_in_flight(const plan::Stage& stage, int microbatches) {
  constexpr int k_leaving = 4;
  return 2 + stage.warmup / microbatches + k_leaving;
}

}  // namespace

std::size_t StageMemory::total() const {
  std::size_t bytes = relaid_weights + running_statistics + scratch + loss_messages;
  for (const Buffers& buffers :
       {inputs, activations, outgoing_activations, incoming_gradients, outgoing_gradients,
        deferred_gradients, gradient_sums, loss_totals, replica_sums, weights, optimizer_states}) {
    bytes += buffers.total();
  }
  return bytes;
}

ArenaLayout arena_layout(const nn::Chain& chain, bool last_stage, std::int64_t max_samples,
                         tensor::DType dtype) {
  ArenaLayout layout;
  layout.bytes = chain.arena_bytes();
  if (!last_stage) return layout;
  layout.unused_totals = chain.arena_bytes();
  layout.labels = layout.unused_totals + device::aligned(k_totals_bytes);
  layout.loss_gradient = layout.labels + device::aligned(static_cast<std::size_t>(max_samples) *
                                                         tensor::size_of(tensor::DType::int32));
  layout.bytes = layout.loss_gradient + unpadded_bytes(chain.output(), max_samples, dtype);
  return layout;
}

schedule::Footprint largest_footprint(const plan::Plan& plan, int rank) {
  const schedule::Segment steady = schedule::steady_segment(plan);
  const auto training =
      schedule::footprint(plan, rank, schedule::training_stream(plan, rank, steady));
  const auto evaluation = schedule::footprint(
      plan, rank, schedule::evaluation_stream(plan, rank, steady.end_group * plan.microbatches));
  schedule::Footprint both = training;
  both.activations = std::max(training.activations, evaluation.activations);
  both.inputs = std::max(training.inputs, evaluation.inputs);
  return both;
}

nn::Chain stage_chain(const model::Model& model, const plan::Plan& plan, int s,
                      std::int64_t max_samples, const ops::Ops& ops) {
  const plan::Stage& stage = plan.stages[static_cast<std::size_t>(s)];
  tensor::Layout layout = tensor::Layout::plain;
  for (int i = 0; i < stage.first; ++i) {
    const nn::LayerContext context{model.layers[static_cast<std::size_t>(i)], layout, max_samples,
                                   ops, nn::layer_types()};
    layout = nn::make_layer(context)->output_layout();
  }
  return nn::Chain(plan::layers_of(model, stage), layout, max_samples, ops, nn::layer_types());
}

StageMemory stage_memory(const model::Model& model, const plan::Plan& plan, int rank,
                         std::int64_t max_samples, const nn::OptimizerSettings& optimizer,
                         const ops::Ops& ops) {
  const int s = plan.stage_of(rank);
  const bool first_stage = s == 0;
  const bool last_stage = s + 1 == plan.size();
  const plan::Stage& stage = plan.stages[static_cast<std::size_t>(s)];
  const tensor::DType dtype = ops.dtype();
  const nn::Chain chain = stage_chain(model, plan, s, max_samples, ops);
  const schedule::Footprint need = largest_footprint(plan, rank);
  const std::span<const model::Layer> layers = plan::layers_of(model, stage);
  const std::int64_t parameters =
      nn::parameter_layout(layers, chain.parameter_layouts()).elements();
  const std::int64_t statistics = nn::statistic_layout(layers).elements();
  const std::int64_t sum_elements = parameters + plan.microbatches * statistics;
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * tensor::size_of(dtype);
  };
  const std::size_t input_bytes = unpadded_bytes(chain.input(), max_samples, dtype);
  const std::size_t output_bytes = unpadded_bytes(chain.output(), max_samples, dtype);

  StageMemory memory;
  memory.inputs = {input_bytes, need.inputs};
  memory.activations = {arena_layout(chain, last_stage, max_samples, dtype).bytes,
                        need.activations};
  memory.incoming_gradients = {output_bytes, need.incoming_gradients};
  memory.outgoing_activations = {output_bytes,
                                 need.lean_forwards && !last_stage ? k_leaving_in_turns : 0};
  memory.outgoing_gradients = {input_bytes, first_stage ? 0 : k_leaving_in_turns};
  memory.deferred_gradients = {chain.deferred_bytes(), need.deferred};
  memory.gradient_sums = {bytes(sum_elements), need.gradient_sums};
  memory.loss_totals = {k_totals_bytes,
                        last_stage ? loss_totals_in_flight(stage, plan.microbatches) : 0};
  if (stage.replicas() > 1) {
    memory.replica_sums = {comm::OrderedSum::bytes_a_sum(stage.replica_of(rank), stage.replicas(),
                                                         sum_elements, dtype),
                           need.gradient_sums};
  }
  memory.weights = {bytes(parameters), plan.delay(s) + 1};
  memory.optimizer_states = {bytes(parameters), optimizer.states()};
  if (WeightStore::relays(chain.parameter_layouts())) memory.relaid_weights = bytes(parameters);
  memory.running_statistics = bytes(statistics);
  memory.scratch = chain.scratch_bytes();
  if (rank == 0) memory.loss_messages = MetricsLink::bytes(plan);
  return memory;
}

}  // namespace dynpipe::pipeline
