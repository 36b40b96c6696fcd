#include "schedule/schedule.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

namespace dynpipe::schedule {
namespace {

using plan::Plan;
using plan::Stage;

const Stage& stage_at(const Plan& plan, int s) {
  return plan.stages[static_cast<std::size_t>(s)];
}

/// W as the schedule uses it: a flush leaves no more than a group in flight.
int effective_warmup(const Plan& plan, int s) {
  switch (plan.schedule) {
    case plan::Schedule::gpipe:
      return plan.microbatches;
    case plan::Schedule::one_f_one_b:
    case plan::Schedule::zb_h1:
      return std::min(stage_at(plan, s).warmup, plan.microbatches);
    case plan::Schedule::asynchronous:
      break;
  }
  return stage_at(plan, s).warmup;
}

/// How many microbatches behind the input part the weight part of zb-h1 follows (Qi et al. 2023,
/// ZB-H1). Stage s enters the group W_0 - W_s forwards after the first and would idle as long once
/// its last forward is done: so many weight parts are kept for then. No stage has more in flight
/// than the first has under 1f1b, W_0 + 1. A stage that recomputes keeps none: they would hold the
/// activations that it is to do without.
int weight_lag(const Plan& plan, int s) {
  if (stage_at(plan, s).recompute) return 0;
  return effective_warmup(plan, 0) - effective_warmup(plan, s);
}

/// Appends F(0..W-1), then F(W+i) B(i), then the backwards that are left, of microbatches [first,
/// end). With a `lag`, B is in two parts and the weight part of i follows B(i + lag), at the end
/// all that are left.
void append_alternating(Stream& order, std::int64_t first, std::int64_t end, int warmup,
                        std::optional<int> lag) {
  const std::int64_t ahead = std::min<std::int64_t>(warmup, end - first);
  for (std::int64_t k = first; k < first + ahead; ++k)
    order.push_back({.op = Op::forward, .index = k});
  for (std::int64_t k = first; k < end; ++k) {
    if (k + ahead < end) order.push_back({.op = Op::forward, .index = k + ahead});
    order.push_back({.op = lag ? Op::backward_input : Op::backward, .index = k});
    if (lag && k - *lag >= first) order.push_back({.op = Op::backward_weight, .index = k - *lag});
  }
  if (!lag) return;
  for (std::int64_t k = std::max(first, end - *lag); k < end; ++k) {
    order.push_back({.op = Op::backward_weight, .index = k});
  }
}

/// Forwards and backwards of a stage, as if it had one replica.
Stream stage_order(const Plan& plan, int s, Segment segment) {
  const std::int64_t m = plan.microbatches;
  const int warmup = effective_warmup(plan, s);
  Stream order;
  if (!plan.synchronous()) {
    append_alternating(order, segment.first_group * m, segment.end_group * m, warmup, {});
    return order;
  }
  std::optional<int> lag;
  if (plan.schedule == plan::Schedule::zb_h1) lag = weight_lag(plan, s);
  for (std::int64_t g = segment.first_group; g < segment.end_group; ++g) {
    append_alternating(order, g * m, (g + 1) * m, warmup, lag);
  }
  return order;
}

/// How many of its own microbatches ahead of their forward a rank posts receives: as many as the
/// stage before it runs ahead, so that no send ever waits for a receive that comes only after it.
int receive_lead(const Plan& plan, int s) {
  if (s == 0) return 0;
  return std::max(1, effective_warmup(plan, s - 1) - effective_warmup(plan, s));
}

constexpr int k_gradient_lead = 1;

/// Adds receives and sends to a rank's own forwards and backwards.
class Messages {
 public:
  Messages(const Plan& plan, int s, const Stream& own)
      : plan_(plan), stage_(s), lead_(receive_lead(plan, s)) {
    for (const Instruction& step : own) {
      if (makes_activation(step.op)) forwards_.push_back(step.index);
      if (makes_input_gradient(step.op)) backwards_.push_back(step.index);
    }
  }

  void before_all(Stream& stream) {
    for (int i = 0; i < lead_; ++i) receive_activation(stream);
    if (stage_ + 1 < plan_.size()) {
      for (int i = 0; i < k_gradient_lead; ++i) receive_gradient(stream);
    }
  }
  void before(Stream& stream, const Instruction& step) {
    if (makes_activation(step.op) && stage_ > 0) receive_activation(stream);
    if (makes_input_gradient(step.op) && stage_ + 1 < plan_.size()) receive_gradient(stream);
  }
  void after(Stream& stream, const Instruction& step) const {
    if (makes_activation(step.op) && stage_ + 1 < plan_.size()) {
      stream.push_back(
          {Op::send, Payload::activation, plan_.owner(stage_ + 1, step.index), step.index});
    }
    if (makes_input_gradient(step.op) && stage_ > 0) {
      stream.push_back(
          {Op::send, Payload::gradient, plan_.owner(stage_ - 1, step.index), step.index});
    }
  }

 private:
  void receive_activation(Stream& stream) {
    if (next_forward_ == forwards_.size()) return;
    const std::int64_t k = forwards_[next_forward_++];
    stream.push_back({Op::receive, Payload::activation, plan_.owner(stage_ - 1, k), k});
  }
  void receive_gradient(Stream& stream) {
    if (next_backward_ == backwards_.size()) return;
    const std::int64_t k = backwards_[next_backward_++];
    stream.push_back({Op::receive, Payload::gradient, plan_.owner(stage_ + 1, k), k});
  }

  const Plan& plan_;
  int stage_;
  int lead_;
  std::vector<std::int64_t> forwards_, backwards_;
  std::size_t next_forward_ = 0, next_backward_ = 0;
};

/// Adds a stage's reductions and updates.
class Updates {
 public:
  Updates(const Plan& plan, int s, Segment segment, std::int64_t own_per_group)
      : microbatches_(plan.microbatches),
        delay_(plan.delay(s)),
        replicated_(stage_at(plan, s).replicas() > 1),
        segment_(segment),
        next_(segment.first_group),
        own_per_group_(own_per_group) {}

  void before(Stream& stream, const Instruction& step) {
    if (!makes_activation(step.op)) return;
    const std::int64_t group = step.index / microbatches_;
    while (next_ < std::min(group - delay_, segment_.end_group)) finish(stream);
  }
  void after(Stream& stream, const Instruction& step) {
    if (!completes_backward(step.op) || ++backwards_ % own_per_group_ != 0) return;
    stream.push_back({.op = Op::reduce_start, .index = step.index / microbatches_});
    if (!replicated_) finish(stream);
  }
  void after_all(Stream& stream) {
    while (next_ < segment_.end_group) {
      if (own_per_group_ == 0) stream.push_back({.op = Op::reduce_start, .index = next_});
      finish(stream);
    }
  }

 private:
  void finish(Stream& stream) {
    stream.push_back({.op = Op::update_wait, .index = next_});
    stream.push_back({.op = Op::update, .index = next_});
    ++next_;
  }

  std::int64_t microbatches_, delay_;
  bool replicated_;
  Segment segment_;
  std::int64_t next_;
  std::int64_t own_per_group_;
  std::int64_t backwards_ = 0;
};

Stream own_part(const Plan& plan, int s, int rank, const Stream& order) {
  Stream own;
  std::copy_if(order.begin(), order.end(), std::back_inserter(own),
               [&](const Instruction& step) { return plan.owner(s, step.index) == rank; });
  return own;
}

/// The same with every forward run again before its backward, where anything lies between them.
Stream recomputing(const Stream& own) {
  Stream result;
  std::set<std::int64_t> lean;
  for (std::size_t i = 0; i < own.size(); ++i) {
    Instruction step = own[i];
    if (step.op == Op::forward) {
      const bool backward_follows = i + 1 < own.size() && makes_input_gradient(own[i + 1].op) &&
                                    own[i + 1].index == step.index;
      if (!backward_follows) {
        step.op = Op::forward_lean;
        lean.insert(step.index);
      }
    } else if (makes_input_gradient(step.op) && lean.contains(step.index)) {
      result.push_back({.op = Op::recompute, .index = step.index});
    }
    result.push_back(step);
  }
  return result;
}

}  // namespace

Stream training_stream(const Plan& plan, int rank, Segment segment) {
  const int s = plan.stage_of(rank);
  const Stage& stage = stage_at(plan, s);
  Stream own = own_part(plan, s, rank, stage_order(plan, s, segment));
  if (stage.recompute) own = recomputing(own);
  const auto own_per_group =
      std::count(stage.owners.begin(), stage.owners.end(), stage.replica_of(rank));

  Messages messages(plan, s, own);
  Updates updates(plan, s, segment, own_per_group);
  Stream stream;
  messages.before_all(stream);
  for (const Instruction& step : own) {
    updates.before(stream, step);
    messages.before(stream, step);
    stream.push_back(step);
    messages.after(stream, step);
    updates.after(stream, step);
  }
  updates.after_all(stream);
  return stream;
}

Stream evaluation_stream(const Plan& plan, int rank, std::int64_t count) {
  const int s = plan.stage_of(rank);
  Stream order;
  for (std::int64_t k = 0; k < count; ++k) order.push_back({.op = Op::forward, .index = k});
  const Stream own = own_part(plan, s, rank, order);
  Messages messages(plan, s, own);
  Stream stream;
  messages.before_all(stream);
  for (const Instruction& step : own) {
    messages.before(stream, step);
    stream.push_back(step);
    messages.after(stream, step);
  }
  return stream;
}

Segment steady_segment(const Plan& plan) {
  // Receives are posted at most W_0 of a rank's own microbatches ahead, and the pipeline fills in
  // as many again; the replica that owns fewest of a group takes most groups for that.
  std::int64_t fewest = plan.microbatches;
  for (const Stage& stage : plan.stages) {
    for (int r = 0; r < stage.replicas(); ++r) {
      const auto owned = std::count(stage.owners.begin(), stage.owners.end(), r);
      if (owned > 0) fewest = std::min<std::int64_t>(fewest, owned);
    }
  }
  return {0, 2 * (stage_at(plan, 0).warmup / fewest + 1) + 6};
}

Stream ended_before(Stream stream, std::int64_t end_group, int microbatches) {
  std::erase_if(stream, [&](const Instruction& instruction) {
    return group_of(instruction, microbatches) >= end_group;
  });
  return stream;
}

std::int64_t lead(const Plan& plan) {
  std::int64_t most = 1;
  for (const Stream& stream : training_streams(plan, steady_segment(plan))) {
    std::int64_t oldest = std::numeric_limits<std::int64_t>::max();
    std::for_each(stream.rbegin(), stream.rend(), [&](const Instruction& step) {
      const std::int64_t group = group_of(step, plan.microbatches);
      oldest = std::min(oldest, group);
      most = std::max(most, group - oldest);
    });
  }
  return most;
}

std::vector<Stream> training_streams(const Plan& plan, Segment segment) {
  std::vector<Stream> streams;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    streams.push_back(training_stream(plan, rank, segment));
  }
  return streams;
}

std::vector<Stream> evaluation_streams(const Plan& plan, std::int64_t count) {
  std::vector<Stream> streams;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    streams.push_back(evaluation_stream(plan, rank, count));
  }
  return streams;
}

Footprint footprint(const Plan& plan, int rank, const Stream& stream) {
  const bool first_stage = plan.stage_of(rank) == 0;
  const bool training = std::any_of(stream.begin(), stream.end(),
                                    [](const Instruction& step) { return step.op == Op::update; });
  Footprint now;
  Footprint most;
  std::int64_t open_group = -1;  // groups open in order, so one number tells which have begun
  const auto open_sum = [&](std::int64_t group) {
    if (group <= open_group) return;
    open_group = group;
    ++now.gradient_sums;
  };
  for (const Instruction& step : stream) {
    switch (step.op) {
      case Op::receive:
        ++(step.payload == Payload::activation ? now.inputs : now.incoming_gradients);
        break;
      case Op::forward:
      case Op::forward_lean:
        ++now.activations;
        if (first_stage) ++now.inputs;
        most.lean_forwards |= step.op == Op::forward_lean;
        break;
      case Op::recompute:
        ++now.activations;
        break;
      case Op::backward_input:
        ++now.deferred;
        open_sum(step.index / plan.microbatches);
        break;
      case Op::backward:
        open_sum(step.index / plan.microbatches);
        break;
      case Op::reduce_start:
        open_sum(step.index);
        break;
      default:
        break;
    }
    most.activations = std::max(most.activations, now.activations);
    most.inputs = std::max(most.inputs, now.inputs);
    most.incoming_gradients = std::max(most.incoming_gradients, now.incoming_gradients);
    most.deferred = std::max(most.deferred, now.deferred);
    most.gradient_sums = std::max(most.gradient_sums, now.gradient_sums);
    if (step.op == Op::backward_weight) --now.deferred;
    if (step.op == Op::forward_lean) --now.activations;
    if (completes_backward(step.op) || (step.op == Op::forward && !training)) {
      --now.activations;
      --now.inputs;
      if (now.incoming_gradients > 0) --now.incoming_gradients;
    } else if (step.op == Op::update) {
      --now.gradient_sums;
    }
  }
  return most;
}

}  // namespace dynpipe::schedule
