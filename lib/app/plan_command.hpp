#pragma once

#include <string>

#include "app/plan_options.hpp"
#include "planner/search.hpp"

namespace dynpipe::app {

/// Plans as the options ask and writes the plan, if they do. Returns what there is to tell: tables
/// for people. Throws InputError for what is wrong with a file or cannot be done.
std::string make_and_describe_plan(const PlanOptions& options);

/// The stages of a plan and why they take their time, in lines of no more than 100 columns.
std::string describe_choice(const planner::PlanChoice& choice, const model::Profile& profile,
                            std::int64_t batch, double kappa);

}  // namespace dynpipe::app
