// What a worker does to a microbatch: forwards, losses and backwards.
#include "pipeline/worker_pools.hpp"

namespace dynpipe::pipeline {

using tensor::Tensor;

void Worker::forward(std::int64_t microbatch, bool lean) {
  Flight& flight = flights_.open(microbatch);
  const std::int64_t n = feed_->size(microbatch);
  if (!first_stage()) await(flight.activation_arrival, times_.wait_activation);
  flight.arena = acquire_after_send(pools_->arenas);
  if (lean && !last_stage()) flight.output = acquire_after_send(pools_->outputs);

  const double began_s = note_begun();
  if (first_stage()) {
    flight.input = pools_->inputs.acquire(channel_, *stream_);
    const Tensor x = input_of(flight, n);
    device::launch(*stream_, [feed = feed_, microbatch, x] { feed->write_input(microbatch, x); });
  }
  run_chain(microbatch, flight);
  const bool keeps = training_ && !lean;
  if (last_stage()) {
    add_loss(microbatch, flight, keeps ? LossGradient::wanted : LossGradient::unwanted);
  }
  if (lean) {
    if (!last_stage()) {
      ops_.reorder(*stream_, chain_.output_in(flight.arena.data, n), output_of(flight, n));
    }
    pools_->arenas.release(flight.arena, *stream_);
  }
  note_done();
  if (training_) {
    charge(times_.forward, began_s);
    return;
  }
  pools_->inputs.release(flight.input, *stream_);
  if (last_stage()) {
    pools_->arenas.release(flight.arena, *stream_);
    flights_.close(microbatch);
  }
}

void Worker::recompute(std::int64_t microbatch) {
  Flight& flight = flights_.at(microbatch);
  flight.arena = acquire_after_send(pools_->arenas);
  const double began_s = note_begun();
  run_chain(microbatch, flight);
  if (last_stage()) {  // its loss counts once, its gradient is lost
    find_loss(microbatch, flight, totals_in(flight.arena.data + pools_->arena.unused_totals),
              ops::Accumulate::set, LossGradient::wanted);
  }
  note_done();
  charge(times_.forward, began_s);
}

void Worker::run_chain(std::int64_t microbatch, Flight& flight) {
  const std::int64_t version =
      training_ ? weights_.version_of(microbatch / plan_.microbatches) : weights_.newest();
  chain_.forward(pass_over(microbatch), weights_.weights(version),
                 input_of(flight, feed_->size(microbatch)), flight.arena.data);
}

void Worker::add_loss(std::int64_t microbatch, const Flight& flight, LossGradient gradient) {
  const std::int64_t group = training_ ? microbatch / plan_.microbatches : k_evaluation;
  const bool fresh = totals_.find(group) == nullptr;
  BufferPool::Lease& lease = totals_.open(group);
  if (fresh) lease = pools_->totals.acquire(channel_, *stream_);
  find_loss(microbatch, flight, totals_in(lease.data),
            fresh ? ops::Accumulate::set : ops::Accumulate::add, gradient);
}

void Worker::find_loss(std::int64_t microbatch, const Flight& flight, const Tensor& totals,
                       ops::Accumulate accumulate, LossGradient gradient) {
  const std::int64_t n = feed_->size(microbatch);
  const Tensor labels{
      flight.arena.data + pools_->arena.labels, tensor::DType::int32, tensor::Layout::plain, {n}};
  device::launch(*stream_,
                 [feed = feed_, microbatch, labels] { feed->write_labels(microbatch, labels); });
  const Tensor logits = chain_.output_in(flight.arena.data, n);
  if (!training_ && logits_sink_) {
    device::launch(*stream_, [this, microbatch, logits] { logits_sink_(microbatch, logits); });
  }
  Tensor dlogits;
  double scale = 0;
  if (gradient == LossGradient::wanted) {
    dlogits = output_gradient_of(flight, n);
    scale = 1.0 / static_cast<double>(feed_->group_size(microbatch / plan_.microbatches));
  }
  ops_.softmax_cross_entropy(*stream_, training_ ? setup_.label_smoothing : 0, logits, labels,
                             scale, accumulate, totals, dlogits);
}

Tensor Worker::totals_in(std::byte* data) {
  return {data, tensor::DType::float64, tensor::Layout::plain, {2}};
}

void Worker::backward(std::int64_t microbatch) {
  Flight& flight = begin_backward(microbatch);
  const double began_s = note_begun();
  const std::int64_t n = feed_->size(microbatch);
  const std::int64_t group = microbatch / plan_.microbatches;
  GroupSum& sum = open_sum(group);
  chain_.backward(pass_over(microbatch), backward_weights(group), input_of(flight, n),
                  output_gradient_of(flight, n), flight.arena.data,
                  gradients_in(sum, microbatch, sum.input_parts), input_gradient_of(flight, n));
  sum.input_parts = sum.weight_parts = true;
  end_backward(microbatch, flight);
  note_done();
  charge(times_.backward, began_s);
}

void Worker::backward_input(std::int64_t microbatch) {
  Flight& flight = begin_backward(microbatch);
  const double began_s = note_begun();
  const std::int64_t n = feed_->size(microbatch);
  const std::int64_t group = microbatch / plan_.microbatches;
  GroupSum& sum = open_sum(group);
  flight.deferred = pools_->deferred.acquire(channel_, *stream_);
  chain_.backward_input(pass_over(microbatch), backward_weights(group), input_of(flight, n),
                        output_gradient_of(flight, n), flight.arena.data,
                        gradients_in(sum, microbatch, sum.input_parts),
                        input_gradient_of(flight, n), flight.deferred.data);
  sum.input_parts = true;
  note_done();
  charge(times_.backward, began_s);
}

void Worker::backward_weight(std::int64_t microbatch) {
  const double began_s = note_begun();
  Flight& flight = flights_.at(microbatch);
  const std::int64_t n = feed_->size(microbatch);
  GroupSum& sum = sums_.at(microbatch / plan_.microbatches);
  chain_.backward_weights(pass_over(microbatch), input_of(flight, n), output_gradient_of(flight, n),
                          flight.arena.data, gradients_in(sum, microbatch, sum.weight_parts),
                          flight.deferred.data);
  sum.weight_parts = true;
  pools_->deferred.release(flight.deferred, *stream_);
  end_backward(microbatch, flight);
  note_done();
  charge(times_.backward, began_s);
}

Worker::Flight& Worker::begin_backward(std::int64_t microbatch) {
  Flight& flight = flights_.at(microbatch);
  if (!last_stage()) await(flight.gradient_arrival, times_.wait_gradient);
  if (!first_stage()) flight.outgoing = acquire_after_send(pools_->outgoing);
  return flight;
}

void Worker::end_backward(std::int64_t microbatch, Flight& flight) {
  pools_->inputs.release(flight.input, *stream_);
  pools_->arenas.release(flight.arena, *stream_, flight.departure);
  if (!last_stage()) pools_->gradients.release(flight.gradient, *stream_);
  flight.backward_done = true;
  forget_if_done(microbatch, flight);
}

void Worker::forget_if_done(std::int64_t microbatch, const Flight& flight) {
  const bool gradient_gone = first_stage() || flight.gradient_sent;
  if (flight.backward_done && gradient_gone) flights_.close(microbatch);
}

Tensor Worker::input_of(const Flight& flight, std::int64_t n) const {
  return image(flight.input.data, chain_.input(), chain_.input_layout(), n);
}

Tensor Worker::output_of(const Flight& flight, std::int64_t n) const {
  return image(flight.output.data, chain_.output(), chain_.output_layout(), n);
}

Tensor Worker::output_gradient_of(const Flight& flight, std::int64_t n) const {
  return last_stage() ? image(flight.arena.data + pools_->arena.loss_gradient, chain_.output(),
                              tensor::Layout::plain, n)
                      : image(flight.gradient.data, chain_.output(), chain_.output_layout(), n);
}

Tensor Worker::input_gradient_of(const Flight& flight, std::int64_t n) const {
  return first_stage() ? Tensor{}
                       : image(flight.outgoing.data, chain_.input(), chain_.input_layout(), n);
}

nn::Gradients Worker::gradients_in(const GroupSum& sum, std::int64_t microbatch, bool begun) const {
  const SumViews& views = sum_views_[sum.lease.index];
  return {views.parameters, begun ? ops::Accumulate::add : ops::Accumulate::set,
          views.statistics[static_cast<std::size_t>(microbatch % plan_.microbatches)]};
}

}  // namespace dynpipe::pipeline
