// Whose fault it is: made-up ranks and links with noise, and what was recorded on real ones.

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.hpp"
#include "interference/attribution.hpp"
#include "support/files.hpp"

namespace dynpipe::interference {
namespace {

RankFigures quiet_rank(int rank = 0) {
  RankFigures figures;
  figures.rank = rank;
  figures.environment.slowdown_error = 0.02;
  figures.environment.run_wait_share = 0.01;
  figures.environment.throttled_share = 0;
  figures.environment.stolen_share = 0;
  return figures;
}

Finding of(const RankFigures& figures) {
  return attribute(std::span(&figures, 1), {}).front();
}

TEST(AttributionTest, QuietIsNone) {
  const Finding finding = of(quiet_rank());
  EXPECT_EQ(finding.cause, Cause::none);
  EXPECT_GT(finding.confidence, 0.99);
}

TEST(AttributionTest, WaitingForTheCoreIsCompute) {
  RankFigures figures = quiet_rank(3);
  figures.environment.slowdown = 4.1;
  figures.environment.run_wait_share = 0.75;
  const Finding finding = of(figures);
  EXPECT_EQ(finding.cause, Cause::compute);
  EXPECT_EQ(finding.rank, 3);
  EXPECT_GT(finding.confidence, 0.99);
  EXPECT_EQ(describe(finding), "rank 3 slowed 4.10x (compute, 100 % sure)");
}

TEST(AttributionTest, AQuotaIsCompute) {
  RankFigures figures = quiet_rank();
  figures.environment.slowdown = 3.4;
  figures.environment.run_wait_share = 0;
  figures.environment.throttled_share = 0.7;
  EXPECT_EQ(of(figures).cause, Cause::compute);
}

TEST(AttributionTest, StealIsLabelled) {
  RankFigures figures = quiet_rank();
  figures.environment.slowdown = 1.6;
  figures.environment.stolen_share = 0.35;
  const Finding finding = of(figures);
  EXPECT_EQ(finding.cause, Cause::steal);
  EXPECT_GT(finding.confidence, 0.99);
}

TEST(AttributionTest, LayersBoundByMemoryTellMemory) {
  RankFigures figures = quiet_rank();
  figures.environment.slowdown = 1.5;
  figures.environment.arithmetic_slowdown = 1.1;
  figures.environment.memory_slowdown = 1.9;
  EXPECT_EQ(of(figures).cause, Cause::memory);
  figures.environment.arithmetic_slowdown = figures.environment.memory_slowdown = 1.5;
  EXPECT_EQ(of(figures).cause, Cause::compute) << "all layers alike: the clock";
}

TEST(AttributionTest, WithoutTheOsLayersAlikeAreCompute) {
  RankFigures figures;
  figures.environment.slowdown = 2;
  figures.environment.slowdown_error = 0.01;
  EXPECT_EQ(of(figures).cause, Cause::compute);
  EXPECT_LT(of(figures).confidence, 1);
}

TEST(AttributionTest, MoreWorkThanOthersIsImbalance) {
  std::vector<RankFigures> ranks = {quiet_rank(0), quiet_rank(1), quiet_rank(2)};
  for (RankFigures& rank : ranks) rank.expected_s = 1;
  ranks[1].expected_s = 1.6;
  const std::vector<Finding> findings = attribute(ranks, {});
  EXPECT_EQ(findings[0].cause, Cause::none);
  EXPECT_EQ(findings[1].cause, Cause::imbalance);
  EXPECT_NEAR(findings[1].slowdown, 1.6 / 1.2, 1e-12);
  ranks[1].environment.slowdown = 2;
  ranks[1].environment.run_wait_share = 0.5;
  EXPECT_EQ(attribute(ranks, {})[1].cause, Cause::compute) << "what disturbs comes first";
}

TEST(AttributionTest, LinksAreTheNetworksWithRateOrLatency) {
  const std::vector<LinkFigures> links = {
      {0, 1, 1.02, 0.05, 1.05, 0.05}, {1, 2, 1.0, 0.05, 3.1, 0.05}, {2, 3, 20, 0.2, 1.1, 0.05}};
  const std::vector<Finding> findings = attribute({}, links);
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[0].cause, Cause::none);
  EXPECT_EQ(findings[1].cause, Cause::network);
  EXPECT_FALSE(findings[1].latency);
  EXPECT_EQ(describe(findings[1]), "link 1 -> 2 slowed 3.10x (network: rate, 100 % sure)");
  EXPECT_EQ(findings[2].cause, Cause::network);
  EXPECT_TRUE(findings[2].latency);
}

/// A normal number of this standard deviation, as a factor.
double noise(const base::Philox& random, std::uint64_t draw, double deviation) {
  return std::exp(deviation * random.normal(draw));
}

TEST(AttributionTest, QuietNoiseRaisesNoAlarm) {
  const base::Philox random(1, "quiet");
  int alarms = 0;
  for (std::uint64_t i = 0; i < 30'000; ++i) {
    RankFigures figures = quiet_rank();
    figures.environment.slowdown_error = 0.04;
    figures.environment.slowdown = noise(random, i, 0.04);
    alarms += of(figures).cause == Cause::none ? 0 : 1;
  }
  EXPECT_LE(alarms, 3);
}

TEST(AttributionTest, PlaceAndKindOfNoisyCases) {
  const base::Philox random(2, "cases");
  int wrong = 0;
  constexpr int k_cases = 3000;
  for (std::uint64_t i = 0; i < k_cases; ++i) {
    std::vector<RankFigures> ranks = {quiet_rank(0), quiet_rank(1), quiet_rank(2), quiet_rank(3)};
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      ranks[r].environment.slowdown = noise(random, 16 * i + r, 0.02);
    }
    const auto where = static_cast<std::size_t>(random.below(16 * i + 4, 4));
    const double slowdown = 1.3 + 3 * random.uniform(16 * i + 5);
    Environment& environment = ranks[where].environment;
    environment.slowdown = slowdown * noise(random, 16 * i + 6, 0.02);
    const bool memory = i % 2 == 0;
    if (memory) {
      environment.memory_slowdown = environment.slowdown * 1.1;
      environment.arithmetic_slowdown = 1 + 0.2 * (slowdown - 1);
    } else {
      environment.run_wait_share = 1 - 1 / slowdown;
    }
    const std::vector<Finding> findings = attribute(ranks, {});
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const Cause truth = r != where ? Cause::none : memory ? Cause::memory : Cause::compute;
      if (findings[r].cause != truth) {
        ++wrong;
        break;
      }
    }
  }
  EXPECT_LE(wrong, 3);
}

/// Slices of a quarter of a second of real stages on a real core: slowdown, run-queue wait,
/// throttling, what disturbed.
struct Recorded {
  double slowdown, run_wait, throttled;
  Cause truth;
  const char* what;
};

TEST(AttributionTest, RecordedCases) {
  const Recorded cases[] = {
      {1.02, 0.00, 0.00, Cause::none, "nothing"},
      {2.05, 0.51, 0.00, Cause::compute, "one busy loop on the core"},
      {3.40, 0.67, 0.00, Cause::compute, "two"},
      {4.33, 0.75, 0.00, Cause::compute, "three"},
      {2.02, 0.01, 0.50, Cause::compute, "a quota of half a core"},
      {3.80, 0.00, 0.70, Cause::compute, "a quota of 30 %"},
      {2.67, 0.50, 0.00, Cause::compute, "a cache hog on the core, mostly by taking it"},
      {1.74, 0.01, 0.00, Cause::memory, "a stream of memory on another core"},
  };
  for (const Recorded& recorded : cases) {
    RankFigures figures = quiet_rank();
    figures.environment.slowdown_error = 0.04;
    figures.environment.slowdown = recorded.slowdown;
    figures.environment.run_wait_share = recorded.run_wait;
    figures.environment.throttled_share = recorded.throttled;
    EXPECT_EQ(of(figures).cause, recorded.truth) << recorded.what;
  }
}

}  // namespace
}  // namespace dynpipe::interference
