#include "pipeline/step_recorder.hpp"

namespace dynpipe::pipeline {
namespace {

using schedule::Op;

StepKind kind_of(Op op) {
  switch (op) {
    case Op::recompute:
      return StepKind::recompute;
    case Op::backward:
      return StepKind::backward;
    case Op::backward_input:
      return StepKind::backward_input;
    case Op::backward_weight:
      return StepKind::backward_weight;
    case Op::update:
      return StepKind::update;
    default:
      return StepKind::forward;
  }
}

StepKind wait_of(Op op) {
  if (op == Op::update_wait) return StepKind::wait_sum;
  return schedule::makes_activation(op) ? StepKind::wait_activation : StepKind::wait_gradient;
}

}  // namespace

StepRecorder::StepRecorder(const base::Clock& clock, std::size_t capacity) : clock_(clock) {
  steps_.reserve(capacity);
}

void StepRecorder::clear() {
  steps_.clear();
  dropped_ = 0;
}

void StepRecorder::note(StepKind kind, std::int64_t index, double least_s) {
  const double now_s = clock_.now_s();
  const double since_s = since_s_;
  since_s_ = now_s;
  if (!training_ || now_s - since_s < least_s) return;
  if (steps_.size() == steps_.capacity()) {
    ++dropped_;
    return;
  }
  steps_.push_back({since_s, now_s, index, kind});
}

void StepRecorder::started(const schedule::Instruction& instruction) {
  note(wait_of(instruction.op), instruction.index, k_least_wait_s);
}

void StepRecorder::begun(const schedule::Instruction& instruction) {
  if (instruction.op == Op::update) return;  // it needs no memory of its own
  note(StepKind::wait_send, instruction.index, k_least_wait_s);
}

void StepRecorder::done(const schedule::Instruction& instruction) {
  note(kind_of(instruction.op), instruction.index, 0);
}

}  // namespace dynpipe::pipeline
