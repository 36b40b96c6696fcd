#pragma once

#include <string>
#include <vector>

#include "support/scenario.hpp"

namespace dynpipe::testing {

/// A training run by PyTorch, from tests/data/make_golden.py.
struct GoldenCase {
  std::string name;
  Scenario scenario;  ///< without a plan; its microbatches are in `microbatches`
  int microbatches = 1;
  std::vector<double> losses;          ///< of PyTorch in float64
  std::vector<double> losses_float32;  ///< of the same in float32
  tensor::StateDict first_gradients;
  tensor::StateDict final_state;

  /// The scenario on `replicas` ranks of each stage; cut to equal FLOPs.
  Scenario with_plan(plan::Schedule schedule, const std::vector<int>& replicas) const;
};

std::vector<GoldenCase> read_golden_cases();

}  // namespace dynpipe::testing
