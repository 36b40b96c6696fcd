#include "pipeline/worker.hpp"

#include <fmt/format.h>

#include "pipeline/worker_pools.hpp"

namespace dynpipe::pipeline {
namespace {

using comm::MessageName;
using schedule::Op;
using tensor::Tensor;

comm::Payload payload_of(schedule::Payload payload) {
  return payload == schedule::Payload::activation ? comm::Payload::activation
                                                  : comm::Payload::gradient;
}

/// Steps of a rank from one report to the next, with room for the warm-up.
std::size_t steps_in_a_report(const plan::Plan& plan, std::int64_t every) {
  // A forward, it again, two parts of a backward, a wait before each and one for memory.
  constexpr std::int64_t k_of_a_microbatch = 10, k_of_a_group = 3;
  const std::int64_t microbatches = (every + 1) * plan.microbatches + plan.stages.front().warmup;
  return static_cast<std::size_t>(k_of_a_microbatch * microbatches + k_of_a_group * (every + 1));
}

}  // namespace

Worker::Worker(const WorkerSetup& setup)
    : setup_(setup),
      plan_(setup.plan),
      rank_(setup.channel.rank()),
      stage_(setup.plan.stage_of(rank_)),
      own_(setup.plan.stages[static_cast<std::size_t>(stage_)]),
      ops_(setup.ops),
      channel_(setup.channel),
      stream_(setup.device.make_stream(fmt::format("compute {}", rank_))),
      chain_(stage_chain(setup.model, plan_, stage_, setup.max_samples, setup.ops)),
      weights_(plan::layers_of(setup.model, own_), chain_.parameter_layouts(), plan_.delay(stage_),
               setup.optimizer, setup.ops, setup.device),
      scratch_(setup.device.allocate(chain_.scratch_bytes())),
      poll_([this] { channel_.poll(); }) {
  const StageMemory memory =
      stage_memory(setup.model, plan_, rank_, setup.max_samples, setup.optimizer, ops_);
  pools_ = std::make_unique<Pools>(
      memory, arena_layout(chain_, last_stage(), setup.max_samples, ops_.dtype()), setup.device);
  for (std::size_t i = 0; i < pools_->sums.size(); ++i) {
    sum_views_.push_back(views_of_sum(pools_->sums.data(i)));
  }
  if (own_.replicas() > 1) {
    reduction_ =
        std::make_unique<comm::OrderedSum>(channel_, setup.device, own_.ranks, ops_.dtype(),
                                           sum_elements(), memory.replica_sums.count);
  }
  if (rank_ == 0) {
    auto sink = setup.on_group ? setup.on_group : [](const GroupMetrics&) {};
    metrics_ = std::make_unique<MetricsLink>(plan_, channel_, setup.device, std::move(sink));
  }
  if (setup.times_every > 0) {
    auto sink = setup.on_times ? setup.on_times : [](const TimesReport&) {};
    const std::size_t steps = setup.record_steps ? steps_in_a_report(plan_, setup.times_every) : 0;
    times_link_ =
        std::make_unique<TimesLink>(plan_, channel_, setup.times_every, steps, std::move(sink));
    if (steps > 0) recorder_ = std::make_unique<StepRecorder>(setup.clock, steps);
  }
  if (setup.observer != nullptr) observers_.add(*setup.observer);  // which may move the clock
  if (recorder_) observers_.add(*recorder_);
  // The sums of a stage's replicas are the same.
  if (setup.compare_gradients_every > 0 && own_.replica_of(rank_) == 0) {
    gradient_lag_ = std::make_unique<GradientLag>(weights_.parameters(), ops_.dtype(), setup.seed,
                                                  setup.compare_gradients_every);
  }
}

std::int64_t Worker::sum_elements() const {
  return weights_.parameters().elements() + weights_.statistics().elements() * plan_.microbatches;
}

Worker::~Worker() {
  stream_.reset();
}  // what it still runs uses everything else

void Worker::load(const tensor::StateDict& state, std::int64_t version, const std::string& source) {
  weights_.load(ops_, *stream_, state, version, source);
}

tensor::StateDict Worker::state() {
  weights_.prepare_save(ops_, *stream_);
  drain();
  return weights_.save();
}

std::int64_t Worker::train(schedule::Segment segment, std::int64_t epoch, const Feed& feed) {
  segment_began_s_ = setup_.clock.now_s();
  feed_ = &feed;
  training_ = true;
  epoch_ = epoch;
  if (metrics_) metrics_->begin(segment);
  if (times_link_) times_link_->begin(segment);
  observers_.begin_training(segment);
  if (setup_.control != nullptr) setup_.control->begin(segment);
  segment_end_ = segment.end_group;
  admitted_ = segment.first_group - 1;
  execute(schedule::training_stream(plan_, rank_, segment));
  if (setup_.control != nullptr) setup_.control->finish();
  if (metrics_) metrics_->finish();
  if (times_link_) times_link_->finish();
  drain();
  observers_.end_segment();
  charge(times_.total, segment_began_s_);
  return segment_end_;
}

void Worker::take_snapshot(WeightSnapshot& into) {
  weights_.take_snapshot(ops_, *stream_, into);
  const device::Event copied = stream_->record();
  channel_.wait_until([&] { return copied.reached(); },
                      [&] { return std::string("its own device to copy the weights"); });
}

void Worker::restore(const WeightSnapshot& from) {
  weights_.restore(ops_, *stream_, from);
  drain();
}

std::vector<LagSample> Worker::gradient_comparisons() const {
  return gradient_lag_ ? gradient_lag_->samples() : std::vector<LagSample>{};
}

EvaluationTotals Worker::evaluate(std::int64_t count, const Feed& feed, LogitsSink sink) {
  logits_sink_ = std::move(sink);
  feed_ = &feed;
  training_ = false;
  observers_.begin_evaluation(count);
  execute(schedule::evaluation_stream(plan_, rank_, count));
  drain();
  observers_.end_segment();
  EvaluationTotals result;
  const BufferPool::Lease* found = totals_.find(k_evaluation);
  if (found == nullptr) return result;
  const auto* totals = reinterpret_cast<const double*>(found->data);
  result = {totals[0], totals[1], 0};
  for (std::int64_t k = 0; k < count; ++k) {
    if (plan_.owner(stage_, k) == rank_) result.samples += static_cast<double>(feed.size(k));
  }
  pools_->totals.release(*found, *stream_);
  totals_.close(k_evaluation);
  return result;
}

void Worker::execute(const schedule::Stream& stream) {
  for (const schedule::Instruction& instruction : stream) {
    if (training_ && !admits(schedule::group_of(instruction, plan_.microbatches))) continue;
    instruction_ = &instruction;
    observers_.ready(instruction);
    execute(instruction);
  }
}

bool Worker::admits(std::int64_t group) {
  if (group <= admitted_ || setup_.control == nullptr) return true;
  if (group >= segment_end_) return false;
  if (setup_.control->admit(group)) {
    admitted_ = group;
    return true;
  }
  segment_end_ = setup_.control->end();
  if (metrics_) metrics_->shorten(segment_end_);
  if (times_link_) times_link_->shorten(segment_end_);
  observers_.shortened(segment_end_);
  return false;
}

void Worker::note_done() {
  observers_.done(*instruction_);
}

double Worker::note_begun() {
  observers_.begun(*instruction_);
  return setup_.clock.now_s();
}

void Worker::note_started() {
  observers_.started(*instruction_);
}

void Worker::execute(const schedule::Instruction& instruction) {
  switch (instruction.op) {
    case Op::receive:
      return receive(instruction);
    case Op::send:
      return send(instruction);
    case Op::forward:
      return forward(instruction.index, false);
    case Op::forward_lean:
      return forward(instruction.index, true);
    case Op::recompute:
      return recompute(instruction.index);
    case Op::backward:
      return backward(instruction.index);
    case Op::backward_input:
      return backward_input(instruction.index);
    case Op::backward_weight:
      return backward_weight(instruction.index);
    case Op::reduce_start:
      return reduce_start(instruction.index);
    case Op::update_wait:
      return update_wait(instruction.index);
    case Op::update:
      return update(instruction.index);
  }
}

void Worker::receive(const schedule::Instruction& instruction) {
  const bool activation = instruction.payload == schedule::Payload::activation;
  Flight& flight = flights_.open(instruction.index);
  BufferPool& pool = activation ? pools_->inputs : pools_->gradients;
  BufferPool::Lease& lease = activation ? flight.input : flight.gradient;
  lease = pool.acquire(channel_, *stream_);
  const Tensor into = activation ? image(lease.data, chain_.input(), chain_.input_layout(),
                                         feed_->size(instruction.index))
                                 : image(lease.data, chain_.output(), chain_.output_layout(),
                                         feed_->size(instruction.index));
  (activation ? flight.activation_arrival : flight.gradient_arrival) = channel_.receive(
      {payload_of(instruction.payload), instruction.index, instruction.peer, rank_},
      {into.data, into.bytes()}, lease.free);
}

void Worker::send(const schedule::Instruction& instruction) {
  Flight& flight = flights_.at(instruction.index);
  const std::int64_t n = feed_->size(instruction.index);
  const MessageName name{payload_of(instruction.payload), instruction.index, rank_,
                         instruction.peer};
  if (instruction.payload == schedule::Payload::activation) {
    const bool lean = flight.output.data != nullptr;
    const Tensor output = lean ? output_of(flight, n) : chain_.output_in(flight.arena.data, n);
    const comm::Ticket leaving =
        channel_.send(name, {output.data, output.bytes()}, stream_->record());
    if (lean) {
      pools_->outputs.release(flight.output, *stream_, leaving);
      return;
    }
    flight.departure = leaving;
    if (training_) return;  // the arena is needed until the backward
    pools_->arenas.release(flight.arena, *stream_, flight.departure);
    flights_.close(instruction.index);
  } else {
    const Tensor dx = input_gradient_of(flight, n);
    const comm::Ticket leaving = channel_.send(name, {dx.data, dx.bytes()}, stream_->record());
    pools_->outgoing.release(flight.outgoing, *stream_, leaving);
    flight.gradient_sent = true;
    forget_if_done(instruction.index, flight);
  }
}

Worker::GroupSum& Worker::open_sum(std::int64_t group) {
  if (GroupSum* open = sums_.find(group)) return *open;
  GroupSum& sum = sums_.open(group);
  sum.lease = pools_->sums.acquire(channel_, *stream_);
  // Replicas add up each other's statistics: those of microbatches that are not this one's are
  // zero.
  if (reduction_ && weights_.statistics().elements() > 0) {
    const Tensor& first = sum_views_[sum.lease.index].statistics.front().front();
    ops_.fill(*stream_, 0,
              {first.data,
               ops_.dtype(),
               tensor::Layout::plain,
               {weights_.statistics().elements() * plan_.microbatches}});
  }
  return sum;
}

Worker::SumViews Worker::views_of_sum(std::byte* data) const {
  const std::size_t size = tensor::size_of(ops_.dtype());
  std::byte* next = data + static_cast<std::size_t>(weights_.parameters().elements()) * size;
  SumViews views{weights_.parameters().views(data, ops_.dtype()), {}};
  for (int j = 0; j < plan_.microbatches; ++j) {
    views.statistics.push_back(weights_.statistics().views(next, ops_.dtype()));
    next += static_cast<std::size_t>(weights_.statistics().elements()) * size;
  }
  return views;
}

void Worker::reduce_start(std::int64_t group) {
  GroupSum& sum = open_sum(group);
  if (!sum.weight_parts) {  // a replica without a microbatch adds nothing
    ops_.fill(
        *stream_, 0,
        {sum.lease.data, ops_.dtype(), tensor::Layout::plain, {weights_.parameters().elements()}});
  }
  if (reduction_) reduction_->start(group, sum.lease.data, stream_->record());
  if (!last_stage()) return;

  if (totals_.find(group) == nullptr) {
    BufferPool::Lease& lease = totals_.open(group);
    lease = pools_->totals.acquire(channel_, *stream_);
    const Tensor totals = totals_in(lease.data);
    const Tensor no_labels{nullptr, tensor::DType::int32, tensor::Layout::plain, {0}};
    ops_.softmax_cross_entropy(*stream_, 0,
                               image(nullptr, chain_.output(), tensor::Layout::plain, 0), no_labels,
                               0, ops::Accumulate::set, totals, {});
  }
  const BufferPool::Lease totals = totals_.at(group);
  totals_.close(group);
  const comm::Ticket leaving = channel_.send({comm::Payload::metrics, group, rank_, 0},
                                             {totals.data, 2 * sizeof(double)}, stream_->record());
  pools_->totals.release(totals, *stream_, leaving);
}

void Worker::update_wait(std::int64_t group) {
  if (!reduction_) return;
  const double began_s = setup_.clock.now_s();
  reduction_->wait(group, *stream_);
  note_started();
  charge(times_.wait_reduction, began_s);
}

void Worker::update(std::int64_t group) {
  const double began_s = note_begun();
  const BufferPool::Lease lease = sums_.at(group).lease;
  const SumViews& views = sum_views_[lease.index];
  sums_.close(group);
  if (gradient_lag_) gradient_lag_->take(group, lease.data, *stream_);
  weights_.update(ops_, *stream_, setup_.learning_rate.at(group), views.parameters);
  for (int j = 0; j < plan_.microbatches; ++j) {
    if (feed_->size(group * plan_.microbatches + j) > 0) {
      weights_.fold(ops_, *stream_, views.statistics[static_cast<std::size_t>(j)]);
    }
  }
  pools_->sums.release(lease, *stream_);
  note_done();
  charge(times_.update, began_s);
  if (times_link_) {
    if (recorder_) {
      times_link_->report(group, times_so_far(), recorder_->steps(), recorder_->dropped());
      if (times_link_->reports(group)) recorder_->clear();
    } else {
      times_link_->report(group, times_so_far(), {}, 0);
    }
  }
  if (setup_.on_update) setup_.on_update(group);
}

void Worker::drain() {
  const device::Event last = stream_->record();
  channel_.wait_until([&] { return last.reached(); },
                      [&] { return std::string("its own device to finish"); });
  for (BufferPool* pool : {&pools_->arenas, &pools_->outputs, &pools_->outgoing, &pools_->totals}) {
    pool->settle(channel_);
  }
}

void Worker::await(std::optional<comm::Ticket>& arrival, double& waited_s) {
  const double began_s = setup_.clock.now_s();
  if (training_) {
    ++times_.arrivals;
    if (channel_.test(*arrival)) ++times_.in_time;
  }
  channel_.join(*arrival, *stream_);
  channel_.retire(*arrival);
  arrival.reset();
  note_started();
  if (training_) charge(waited_s, began_s);
}

BufferPool::Lease Worker::acquire_after_send(BufferPool& pool) {
  const double began_s = setup_.clock.now_s();
  BufferPool::Lease lease = pool.acquire(channel_, *stream_);
  if (training_) charge(times_.wait_send, began_s);
  return lease;
}

nn::Weights Worker::backward_weights(std::int64_t group) {
  return weights_.weights_for_backward(ops_, *stream_, weights_.version_of(group));
}

nn::Pass Worker::pass_over(std::int64_t microbatch) const {
  return {ops_,
          *stream_,
          training_,
          setup_.seed,
          epoch_,
          feed_->samples(microbatch),
          nn::Scratch(scratch_.data(), scratch_.bytes()),
          &poll_};
}

Tensor Worker::image(std::byte* data, const base::Shape& sample, tensor::Layout layout,
                     std::int64_t n) const {
  return {data, ops_.dtype(), layout, sample.with_batch(n)};
}

void Worker::charge(double& total_s, double since_s) const {
  total_s += setup_.clock.now_s() - since_s;
}

StageTimes Worker::times_so_far() const {
  StageTimes times = times_;
  charge(times.total, segment_began_s_);
  return times;
}

}  // namespace dynpipe::pipeline
