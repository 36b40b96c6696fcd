#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/channel.hpp"
#include "comm/world.hpp"
#include "emulate/described_run.hpp"
#include "emulate/virtual_clock.hpp"
#include "pipeline/step_observer.hpp"

namespace dynpipe::emulate {

/// Finds the described times of the instructions that a worker tells of.
class DescribedSteps : public pipeline::StepObserver {
 public:
  explicit DescribedSteps(DescribedRun& run) : run_(run) {}

  void begin_training(schedule::Segment segment) final;
  void begin_evaluation(std::int64_t count) final;
  void ready(const schedule::Instruction& instruction) final;
  void started(const schedule::Instruction& instruction) final;
  void done(const schedule::Instruction& instruction) final;
  void shortened(std::int64_t end_group) final { run_.shorten(end_group); }
  /// Throws std::logic_error where the worker left out steps of the description.
  void end_segment() final;

 protected:
  virtual void on_begin(double began_s) = 0;
  virtual void on_ready(const planner::SimulatedStep& step) = 0;
  virtual void on_started(const planner::SimulatedStep& step) = 0;
  virtual void on_done(const planner::SimulatedStep& step) = 0;
  virtual void on_end(double end_s) = 0;

 private:
  /// The next described step, if this instruction is the one; else null.
  const planner::SimulatedStep* described(const schedule::Instruction& instruction) const;

  DescribedRun& run_;
  std::size_t next_ = 0;
};

/// Moves a clock to the described times: real maths and real messages, and two runs tell the same
/// times however slow their host is.
class VirtualSteps final : public DescribedSteps {
 public:
  VirtualSteps(DescribedRun& run, VirtualClock& clock) : DescribedSteps(run), clock_(clock) {}

 private:
  void on_begin(double began_s) override { clock_.move_to(began_s); }
  void on_ready(const planner::SimulatedStep& step) override { clock_.move_to(step.ready_s); }
  void on_started(const planner::SimulatedStep& step) override { clock_.move_to(step.start_s); }
  void on_done(const planner::SimulatedStep& step) override { clock_.move_to(step.end_s); }
  void on_end(double end_s) override { clock_.move_to(end_s); }

  VirtualClock& clock_;
};

/// Holds a rank back until the described times have come on a real clock, messages moving
/// meanwhile; all ranks begin a segment together. Throws RunError where the host is too slow for
/// that: where a step ends later than described, by more than 2 % of the time since the segment
/// began and more than `k_slack_s`.
class PacedSteps final : public DescribedSteps {
 public:
  static constexpr double k_tolerance = 0.02;
  static constexpr double k_slack_s = 2e-3;  ///< what a host's scheduler may take now and then

  PacedSteps(DescribedRun& run, const base::Clock& clock, comm::Channel& channel,
             comm::World& world)
      : DescribedSteps(run), clock_(clock), channel_(channel), world_(world) {}

 private:
  void on_begin(double began_s) override;
  void on_ready(const planner::SimulatedStep&) override {}
  void on_started(const planner::SimulatedStep& step) override;
  void on_done(const planner::SimulatedStep& step) override;
  void on_end(double end_s) override;
  /// Until `described_s`, a moment of the description at which `what` happens.
  template <typename What>
  void hold(double described_s, What&& what);

  const base::Clock& clock_;
  comm::Channel& channel_;
  comm::World& world_;
  double began_s_ = 0, described_began_s_ = 0;  ///< the segment: on the clock, described
};

}  // namespace dynpipe::emulate
