#pragma once

#include <limits>
#include <optional>

#include "planner/judge.hpp"
#include "planner/search.hpp"

namespace dynpipe::planner {

/// A plan and what it was found to be.
struct Verdict {
  plan::Plan plan;
  std::optional<Judgement> judgement;  ///< empty where it was not simulated
  std::optional<Baseline> baseline;
  double objective = std::numeric_limits<double>::infinity();
};

/// What a plan is told as: why its stages take their time, and what keeps it from the bound.
PlanChoice account_of(const Verdict& verdict, const model::Profile& profile, const Cluster& cluster,
                      const SearchRequest& request);

/// Whether a plan that others made keeps what the request asks for: memory, pins, stages, replicas.
bool permitted(const plan::Plan& plan, const model::Profile& profile, const Cluster& cluster,
               const SearchRequest& request);

/// Whether plans of this schedule are asked for.
bool allows(const SearchRequest& request, plan::Schedule schedule);

/// What the formula makes of a plan: its objective, and what no simulation of it comes below.
struct Expectation {
  double objective = 0, least = 0;
};
Expectation expectation_of(const plan::Plan& plan, const model::Profile& profile,
                           const Cluster& cluster, const SearchRequest& request);

}  // namespace dynpipe::planner
