#pragma once

#include "support/scenario.hpp"

namespace dynpipe::testing {

/// A small model of about ten layers, with batch norm, a residual block with a shortcut, and
/// dropout.
model::Model small_model();
/// One without batch norm, of eleven layers.
model::Model plain_model();

struct PlanLimits {
  int ranks = 8;
  int stages = 4;
  int microbatches = 8;
};
/// Any plan that `validate` accepts: random cuts, replicas, owner patterns (a replica may own
/// nothing), warm-ups from the least to far beyond, recomputation, schedule and policy.
plan::Plan random_plan(const model::Model& model, std::uint64_t seed,
                       const PlanLimits& limits = {});

/// The scenario numbered `seed` of the gate: random model, plan, optimizer, group sizes (some
/// smaller than M, some of one sample) and drains.
Scenario random_scenario(std::uint64_t seed, const PlanLimits& limits = {});

/// For messages: schedule, policy, M, and each stage's layers, owners and W.
std::string describe(const Scenario& scenario);

}  // namespace dynpipe::testing
