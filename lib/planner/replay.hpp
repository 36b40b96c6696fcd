#pragma once

#include <functional>
#include <span>

#include "planner/simulator.hpp"

namespace dynpipe::planner {

/// What a message of a recorded run took: from when both sides were ready for it until its
/// receiver, of this stage, had it.
using MessageSeconds =
    std::function<double(int receiving_stage, schedule::Payload payload, std::int64_t microbatch)>;

/// The same as `simulate`, but that activations and gradients take what is told, whatever the
/// cluster's links are; sums of gradients take those.
SimulatedRun replay(const plan::Plan& plan, std::span<const schedule::Stream> streams,
                    const Workload& work, const Cluster& cluster, const SimulatorOptions& options,
                    const MessageSeconds& message_seconds);

}  // namespace dynpipe::planner
