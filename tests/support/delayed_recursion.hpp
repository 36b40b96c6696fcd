#pragma once

#include "support/scenario.hpp"

namespace dynpipe::testing {

/// The scenario by the shortest program that could be right: one process, the whole model, every
/// version of every parameter kept, float64.
///
///   w[g+1] = step(w[g], sum over the group's microbatches of the gradient at version max(0, g -
///   tau_s))
///
/// with tau_s of the stage that holds the parameter, worked out here from W and M once more.
/// Optimizer steps and statistics are PyTorch's formulas, written out here too; only the layers'
/// own forward and backward (checked by finite differences) are the library's.
Outcome run_delayed_recursion(const Scenario& scenario);

}  // namespace dynpipe::testing
