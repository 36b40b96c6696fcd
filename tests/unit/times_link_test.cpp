#include "pipeline/times_link.hpp"

#include <gtest/gtest.h>

#include "support/random_scenario.hpp"

namespace dynpipe::pipeline {
namespace {

using testing::Outcome;
using testing::random_scenario;
using testing::run_on_threads;
using testing::Scenario;

TEST(TimesLinkTest, EveryRankReportsEverySoManyGroupsInOrder) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const Scenario scenario = random_scenario(seed);
    const Outcome outcome = run_on_threads(scenario, {.seed = seed});
    const std::int64_t every = scenario.times_every();
    for (int rank = 0; rank < scenario.plan.ranks(); ++rank) {
      std::int64_t expected = every - 1;
      for (const TimesReport& report : outcome.reports) {
        if (report.rank != rank) continue;
        EXPECT_EQ(report.group, expected) << "rank " << rank;
        expected += every;
      }
      EXPECT_GE(expected, scenario.updates) << "rank " << rank << " told too little";
    }
  }
}

TEST(TimesLinkTest, AReportTellsOfTheTimeSinceTheLastOne) {
  const Outcome outcome = run_on_threads(random_scenario(4), {.seed = 4});
  ASSERT_FALSE(outcome.reports.empty());
  for (const TimesReport& report : outcome.reports) {
    EXPECT_GT(report.times.busy(), 0);
    EXPECT_LE(report.times.busy() + report.times.waiting(), report.times.total * (1 + 1e-9));
  }
}

}  // namespace
}  // namespace dynpipe::pipeline
