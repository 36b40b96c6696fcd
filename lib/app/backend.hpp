#pragma once

#include <memory>

#include "app/train_options.hpp"
#include "comm/channel.hpp"
#include "ops/ops.hpp"

namespace dynpipe::app {

/// The maths that was asked for, on this rank's threads.
std::unique_ptr<ops::Ops> make_ops(const TrainOptions& options, int threads);

/// How a rank waits for messages: it spins first where it has a core for each of its threads. Sets
/// the calling thread's timer to end naps in time.
comm::WaitPolicy wait_policy(double deadline_s, bool has_its_cores);

}  // namespace dynpipe::app
