#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "pipeline/step_observer.hpp"

namespace dynpipe::pipeline {

/// What a rank does for a while.
enum class StepKind : std::uint8_t {
  forward,
  recompute,
  backward,
  backward_input,
  backward_weight,
  update,
  wait_activation,
  wait_gradient,
  wait_sum,
  wait_send,  ///< for a buffer whose message its receiver has not taken yet
};

/// A step or a wait, by the rank's own clock. `index`: the microbatch, or of updates and waits for
/// sums the group.
struct TimedStep {
  double start_s = 0, end_s = 0;
  std::int64_t index = 0;
  StepKind kind = StepKind::forward;
};

/// Notes every forward, backward (or part of one) and update of training, and the waits before them
/// that last at least `k_least_wait_s`. Steps beyond `capacity` between two calls of `clear` are
/// counted and forgotten; nothing is allocated.
class StepRecorder final : public StepObserver {
 public:
  static constexpr double k_least_wait_s = 10e-6;

  StepRecorder(const base::Clock& clock, std::size_t capacity);

  std::span<const TimedStep> steps() const { return steps_; }
  std::int64_t dropped() const { return dropped_; }
  void clear();

  void begin_training(schedule::Segment) override { training_ = true; }
  void begin_evaluation(std::int64_t) override { training_ = false; }
  void ready(const schedule::Instruction&) override { since_s_ = clock_.now_s(); }
  void started(const schedule::Instruction& instruction) override;
  void begun(const schedule::Instruction& instruction) override;
  void done(const schedule::Instruction& instruction) override;
  void end_segment() override {}

 private:
  /// Notes what lasted from `since_s_` until now.
  void note(StepKind kind, std::int64_t index, double least_s);

  const base::Clock& clock_;
  std::vector<TimedStep> steps_;
  std::int64_t dropped_ = 0;
  bool training_ = false;
  double since_s_ = 0;
};

/// Tells several observers, in this order.
class StepObservers final : public StepObserver {
 public:
  /// They outlive this.
  void add(StepObserver& observer) { all_.push_back(&observer); }

  void begin_training(schedule::Segment segment) override {
    for (StepObserver* one : all_) one->begin_training(segment);
  }
  void begin_evaluation(std::int64_t count) override {
    for (StepObserver* one : all_) one->begin_evaluation(count);
  }
  void ready(const schedule::Instruction& instruction) override {
    for (StepObserver* one : all_) one->ready(instruction);
  }
  void started(const schedule::Instruction& instruction) override {
    for (StepObserver* one : all_) one->started(instruction);
  }
  void begun(const schedule::Instruction& instruction) override {
    for (StepObserver* one : all_) one->begun(instruction);
  }
  void done(const schedule::Instruction& instruction) override {
    for (StepObserver* one : all_) one->done(instruction);
  }
  void shortened(std::int64_t end_group) override {
    for (StepObserver* one : all_) one->shortened(end_group);
  }
  void end_segment() override {
    for (StepObserver* one : all_) one->end_segment();
  }

 private:
  std::vector<StepObserver*> all_;
};

}  // namespace dynpipe::pipeline
