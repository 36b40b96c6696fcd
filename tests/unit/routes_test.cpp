#include "planner/routes.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "base/random.hpp"

namespace dynpipe::planner {
namespace {

Cluster ends(int ranks, int switches) {
  Cluster cluster;
  cluster.ranks.resize(static_cast<std::size_t>(ranks));
  cluster.switches.resize(static_cast<std::size_t>(switches));
  return cluster;
}

void link(Cluster& cluster, int from, int to, double latency_s, double bytes_per_s = 1,
          double overlap = 1) {
  cluster.links.push_back({"", from, to, latency_s, bytes_per_s, true, overlap});
}

TEST(RoutesTest, PassTheSwitchOfAStar) {
  const Cluster cluster = uniform_cluster(4, 2e-6, 1e9, 0.5);
  Routes routes(cluster);
  const Route& route = routes.between(1, 3);
  EXPECT_EQ(route.channels, (std::vector<int>{2, 7}));  // up link 1, down link 3
  EXPECT_DOUBLE_EQ(route.latency_s, 4e-6);
  EXPECT_EQ(route.bytes_per_s, 1e9);
  EXPECT_EQ(route.overlap, 0.5);
  EXPECT_EQ(routes.between(3, 1).channels, (std::vector<int>{6, 3}));
}

TEST(RoutesTest, TakeTheSlowestLinkAndTheLeastOverlap) {
  Cluster cluster = ends(3, 0);
  link(cluster, 1, 0, 1, 10, 0.9);
  link(cluster, 1, 2, 2, 5, 1);
  Routes routes(cluster);
  const Route& route = routes.between(0, 2);  // through rank 1
  EXPECT_EQ(route.channels, (std::vector<int>{1, 2}));
  EXPECT_EQ(route.latency_s, 3);
  EXPECT_EQ(route.bytes_per_s, 5);
  EXPECT_EQ(route.overlap, 0.9);
}

TEST(RoutesTest, OfAHalfDuplexLinkAreOneChannelBothWays) {
  Cluster cluster = ends(2, 0);
  link(cluster, 0, 1, 0);
  cluster.links[0].full_duplex = false;
  Routes routes(cluster);
  EXPECT_EQ(routes.between(0, 1).channels, routes.between(1, 0).channels);
}

TEST(RoutesTest, PreferLatencyThenFewLinks) {
  Cluster cluster = ends(2, 2);
  link(cluster, 0, 1, 5);
  link(cluster, 0, 2, 1);
  link(cluster, 2, 1, 1);
  EXPECT_EQ(Routes(cluster).between(0, 1).channels.size(), 2U);
  cluster.links[0].latency_s = 2;
  EXPECT_EQ(Routes(cluster).between(0, 1).channels.size(), 1U);
}

/// Four leaves of four ranks under two upper switches.
Cluster small_fat_tree() {
  Cluster cluster = ends(16, 6);
  for (int rank = 0; rank < 16; ++rank) link(cluster, rank, 16 + rank / 4, 1);
  for (int leaf = 16; leaf < 20; ++leaf) {
    for (int upper = 20; upper < 22; ++upper) link(cluster, leaf, upper, 1);
  }
  return cluster;
}

TEST(RoutesTest, SpreadOverEquallyShortWaysByWhereTheyLead) {
  const Cluster cluster = small_fat_tree();
  Routes routes(cluster);
  for (int to = 4; to < 16; ++to) {
    const Route& route = routes.between(0, to);
    ASSERT_EQ(route.channels.size(), 4U);
    EXPECT_EQ(route.channels[1] / 2, 16 + to % 2) << "to rank " << to;
  }
  EXPECT_EQ(routes.between(0, 3).channels.size(), 2U);
}

TEST(RoutesTest, AreShortestOnRandomGraphs) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const base::Philox random(seed, "graph");
    std::uint64_t draws = 0;
    const auto below = [&](int bound) {
      return static_cast<int>(random.below(draws++, static_cast<std::uint64_t>(bound)));
    };
    const int count = 2 + below(10);
    Cluster cluster = ends(count, 0);
    for (int end = 1; end < count; ++end) link(cluster, end, below(end), below(4));
    for (int more = below(8); more > 0; --more) {
      const int from = below(count);
      const int to = below(count);
      if (from != to) link(cluster, from, to, below(4));
    }
    // Floyd and Warshall.
    const auto n = static_cast<std::size_t>(count);
    std::vector distance(n, std::vector<double>(n, std::numeric_limits<double>::infinity()));
    for (std::size_t i = 0; i < n; ++i) distance[i][i] = 0;
    for (const ClusterLink& l : cluster.links) {
      const auto a = static_cast<std::size_t>(l.from);
      const auto b = static_cast<std::size_t>(l.to);
      distance[a][b] = distance[b][a] = std::min(distance[a][b], l.latency_s);
    }
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          distance[i][j] = std::min(distance[i][j], distance[i][k] + distance[k][j]);
        }
      }
    }
    Routes routes(cluster);
    for (int from = 0; from < count; ++from) {
      for (int to = 0; to < count; ++to) {
        if (from == to) continue;
        const Route& route = routes.between(from, to);
        EXPECT_EQ(route.latency_s,
                  distance[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)]);
        int end = from;  // its links hang together
        std::set<int> seen{from};
        for (int c : route.channels) {
          const ClusterLink& l = cluster.links[static_cast<std::size_t>(c / 2)];
          ASSERT_EQ(end, c % 2 == 0 ? l.from : l.to);
          end = c % 2 == 0 ? l.to : l.from;
          ASSERT_TRUE(seen.insert(end).second);
        }
        EXPECT_EQ(end, to);
      }
    }
  }
}

TEST(RoutesTest, ThatDoNotExistAreAnError) {
  Cluster cluster = ends(3, 0);
  link(cluster, 0, 1, 1);
  Routes routes(cluster);
  EXPECT_THROW(routes.between(0, 2), std::logic_error);
}

}  // namespace
}  // namespace dynpipe::planner
