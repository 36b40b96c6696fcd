#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "schedule/schedule.hpp"

namespace dynpipe::schedule {

/// What is wrong with a set of streams, before anything runs: empty if nothing is.
///
/// Runs the streams without time and in the strictest reading: a send blocks its rank until the
/// peer has posted the receive (rendezvous, no buffering), messages of a directed edge match in
/// order, a forward or backward blocks until its message is there, an update_wait until every
/// replica has started the group's reduction. Whatever passes here passes under every laxer
/// transport.
///
/// Also holds each stream to what the plan owes: every own microbatch forward and backward once (in
/// one step or two), gradients in the order of microbatches, on a version that is held
/// (max(base_version, g - delay)), every group reduced, awaited and updated once and in order,
/// nothing sent before it is made, nothing left in flight.
///
/// `base_version` is the oldest version held when the segment starts, at most segment.first_group.
std::optional<std::string> find_training_problem(const plan::Plan& plan, Segment segment,
                                                 std::int64_t base_version,
                                                 const std::vector<Stream>& streams);

/// The same for streams of evaluation over `count` microbatches, whole groups of them.
std::optional<std::string> find_evaluation_problem(const plan::Plan& plan, std::int64_t count,
                                                   const std::vector<Stream>& streams);

}  // namespace dynpipe::schedule
