#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"
#include "schedule/instruction.hpp"

namespace dynpipe::schedule {

/// Update groups [first, end) between two drains.
struct Segment {
  std::int64_t first_group = 0;
  std::int64_t end_group = 0;
};

/// What `rank` does in a segment of training.
///
/// A stage's order is F(0..W-1), then F(W+i) B(i) for i = 0, 1, ..., then the backwards that are
/// left: over the whole segment under `async` (W of the plan), over each group under `1f1b` (W of
/// the plan, at most M) and `gpipe` (W = M). `zb-h1` is `1f1b` with its backwards in two parts: the
/// weight part follows W_0 - W_s microbatches later, where the stage would wait at the group's end.
/// A replica does its own microbatches of it, in that order. Receives are posted ahead of their use
/// (see `receive_lead`), a send follows what it sends at once; an update is made as soon as the
/// group is complete where the stage has one replica, and as late as the versions allow where it
/// has several, so that the sum has time to arrive.
Stream training_stream(const plan::Plan& plan, int rank, Segment segment);

/// What `rank` does to evaluate microbatches [0, count) with the newest weights: forwards only.
/// Owners are those of training; `count` is a multiple of M (the last microbatches may be empty).
Stream evaluation_stream(const plan::Plan& plan, int rank, std::int64_t count);

/// A segment from the start that is long enough to hold every situation there is: in longer ones
/// only the numbers go on.
Segment steady_segment(const plan::Plan& plan);

/// The update group that an instruction belongs to.
constexpr std::int64_t group_of(const Instruction& instruction, int microbatches) {
  switch (instruction.op) {
    case Op::reduce_start:
    case Op::update_wait:
    case Op::update:
      return instruction.index;
    default:
      return instruction.index / microbatches;
  }
}

/// What is left of a stream of training that ends before this group: the others' instructions.
Stream ended_before(Stream stream, std::int64_t end_group, int microbatches);

/// How many groups a rank may have begun while others of its groups are unfinished: a rank that has
/// come to the first instruction of group g has executed all those of groups before g - lead.
std::int64_t lead(const plan::Plan& plan);

/// Streams of all ranks, by rank.
std::vector<Stream> training_streams(const plan::Plan& plan, Segment segment);
std::vector<Stream> evaluation_streams(const plan::Plan& plan, std::int64_t count);

/// How many things a stream holds at once, at most: what the runtime must have memory for.
struct Footprint {
  int activations =
      0;  ///< microbatches between the forward that keeps them and the end of their backward
  int inputs = 0;  ///< microbatches between the post of their receive and their last use
  int incoming_gradients = 0;  ///< likewise
  int deferred = 0;            ///< microbatches between the two parts of their backward
  int gradient_sums = 0;       ///< groups between their first backward and their update
  bool lean_forwards = false;  ///< whether some forwards keep nothing but their input
};
Footprint footprint(const plan::Plan& plan, int rank, const Stream& stream);

}  // namespace dynpipe::schedule
