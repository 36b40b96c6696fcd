// Flows that share channels, against the textbook's way to share them from scratch.
#include "planner/fluid_network.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.hpp"
#include "support/water_filling.hpp"

namespace dynpipe::planner {
namespace {

using testing::FlowChannels;
using testing::water_filling;

void expect_max_min(const FluidNetwork& network, const std::vector<double>& capacities,
                    const FlowChannels& flows, const std::string& when) {
  for (const auto& [flow, rate] : water_filling(capacities, flows)) {
    ASSERT_NEAR(network.rate(flow), rate, 1e-8 * rate) << when << ", flow " << flow;
  }
}

/// Numbers one after another.
struct Dice {
  explicit Dice(std::uint64_t seed) : random(seed, "flows") {}
  int below(int bound) {
    return static_cast<int>(random.below(draws++, static_cast<std::uint64_t>(bound)));
  }
  base::Philox random;
  std::uint64_t draws = 0;
};

std::vector<int> random_channels(Dice& dice, int channels) {
  std::vector<int> chosen;
  const int hops = 1 + dice.below(std::min(4, channels));
  while (static_cast<int>(chosen.size()) < hops) {
    const int c = dice.below(channels);
    if (std::ranges::find(chosen, c) == chosen.end()) chosen.push_back(c);
  }
  return chosen;
}

TEST(FluidNetworkTest, SharesAsTheTextbookDoesWhateverChanged) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Dice dice(seed);
    std::vector<double> capacities(static_cast<std::size_t>(1 + dice.below(12)));
    for (double& capacity : capacities) capacity = 1 + dice.below(20);
    FluidNetwork network(capacities);
    FlowChannels flows;
    const int channels = static_cast<int>(capacities.size());
    for (int change = 0; change < 60; ++change) {
      for (int at_once = 1 + dice.below(3); at_once > 0; --at_once) {
        const int flow = dice.below(24);
        const int kind = dice.below(8);
        if (kind == 0) {
          const int c = dice.below(channels);
          capacities[static_cast<std::size_t>(c)] = 1 + dice.below(20);
          network.set_capacity(c, capacities[static_cast<std::size_t>(c)]);
        } else if (flows.contains(flow)) {
          network.remove(flow);
          flows.erase(flow);
        } else {
          flows[flow] = random_channels(dice, channels);
          network.add(flow, flows[flow], 1e9, change);
        }
      }
      network.share_out(change);
      expect_max_min(network, capacities, flows, fmt::format("seed {}, {}", seed, change));
    }
  }
}

TEST(FluidNetworkTest, TellsWhichRatesChanged) {
  FluidNetwork network({10, 10, 10});
  const std::vector<int> first{0}, second{0, 1}, third{2};
  network.add(0, first, 100, 0);
  network.add(2, third, 100, 0);
  network.share_out(0);
  EXPECT_DOUBLE_EQ(network.rate(0), 10);
  network.add(1, second, 100, 4);
  const auto changed = network.share_out(4);
  EXPECT_EQ(std::vector<int>(changed.begin(), changed.end()), (std::vector<int>{0, 1}));
  EXPECT_DOUBLE_EQ(network.rate(0), 5);
  EXPECT_DOUBLE_EQ(network.rate(2), 10);
  EXPECT_DOUBLE_EQ(network.end_s(0), 4 + 60.0 / 5);
}

TEST(FluidNetworkTest, AFlowHasPassedWhenItsRatesCameToItsBytes) {
  FluidNetwork network({10});
  const std::vector<int> channel{0};
  network.add(0, channel, 100, 0);
  network.share_out(0);
  network.add(1, channel, 1000, 2);  // 80 bytes left, at 5
  network.share_out(2);
  network.set_capacity(0, 4);  // 55 left, at 2
  network.share_out(7);
  network.remove(1);  // 49 left, at 4
  network.share_out(10);
  EXPECT_DOUBLE_EQ(network.end_s(0), 10 + 49.0 / 4);
  network.remove(0);
  EXPECT_DOUBLE_EQ(network.carried(0), 1100);
}

TEST(FluidNetworkTest, EqualFlowsEndTogetherToTheBit) {
  // Everybody to everybody over links of their own: 2 * n channels, n (n - 1) flows.
  const int n = 9;
  FluidNetwork network(std::vector<double>(2 * n, 3.1));
  std::vector<std::vector<int>> channels;
  for (int a = 0; a < n; ++a) {
    for (int b = 0; b < n; ++b) {
      if (a != b) channels.push_back({2 * a, 2 * b + 1});
    }
  }
  for (std::size_t f = 0; f < channels.size(); ++f) {
    network.add(static_cast<int>(f), channels[f], 7.7, 0.1);
  }
  network.share_out(0.1);
  for (std::size_t f = 0; f < channels.size(); ++f) {
    EXPECT_EQ(network.end_s(static_cast<int>(f)), network.end_s(0));
  }
}

}  // namespace
}  // namespace dynpipe::planner
