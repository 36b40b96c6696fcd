#pragma once

#include <cstdint>

#include "schedule/schedule.hpp"

namespace dynpipe::pipeline {

/// Told what a rank does, instruction by instruction and in their order, by the thread that does
/// it. It may take its time, and move the clock that the worker reads: that is how a rank is
/// emulated.
class StepObserver {
 public:
  virtual ~StepObserver() = default;

  /// The rank begins a drained segment of training, or the evaluation of `count` microbatches.
  virtual void begin_training(schedule::Segment segment) = 0;
  virtual void begin_evaluation(std::int64_t count) = 0;
  /// The rank has come to the next instruction of its stream.
  virtual void ready(const schedule::Instruction& instruction) = 0;
  /// The message or sum that the instruction waits for is there.
  virtual void started(const schedule::Instruction& instruction) = 0;
  /// It has the memory that it needs too, and computes from now on.
  virtual void begun(const schedule::Instruction& /*instruction*/) {}
  /// A forward, a backward or a part of one, or an update has been computed.
  virtual void done(const schedule::Instruction& instruction) = 0;
  /// The segment under way ends before this group: what is left of it is schedule::ended_before.
  virtual void shortened(std::int64_t /*end_group*/) {}
  /// The stream is through, and the rank is drained.
  virtual void end_segment() = 0;
};

}  // namespace dynpipe::pipeline
