#pragma once

#include <memory>

#include "app/train_options.hpp"
#include "ops/ops.hpp"

namespace dynpipe::app {

/// The maths that was asked for, on this rank's threads.
std::unique_ptr<ops::Ops> make_ops(const TrainOptions& options, int threads);

}  // namespace dynpipe::app
