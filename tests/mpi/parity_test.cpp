// Parity with PyTorch over MPI ranks: one stage a rank, and the same with a replica more.
#include <gtest/gtest.h>

#include "mpi/mpi_fixture.hpp"
#include "support/golden.hpp"

namespace dynpipe::testing {
namespace {

TEST(MpiParityTest, Float64EqualsPyTorch) {
  const int ranks = std::min(mpi_world()->size(), 4);
  std::vector<std::vector<int>> layouts = {std::vector<int>(static_cast<std::size_t>(ranks), 1)};
  if (ranks > 1) {
    layouts.emplace_back(static_cast<std::size_t>(ranks - 1), 1);
    layouts.back().back() = 2;
  }
  for (const GoldenCase& golden : read_golden_cases()) {
    for (const auto& replicas : layouts) {
      const Scenario scenario = golden.with_plan(plan::Schedule::one_f_one_b, replicas);
      const auto outcome = run_on_mpi(scenario);
      if (!outcome) continue;
      EXPECT_LE(largest_difference(outcome->state, same_names(golden.final_state, outcome->state)),
                1e-10)
          << golden.name;
      if (mpi_world()->rank() == 0) {
        EXPECT_LE(largest_difference(outcome->losses, golden.losses), 1e-10) << golden.name;
      }
    }
  }
}

}  // namespace
}  // namespace dynpipe::testing
