// The cluster that a profile was measured on.

#include "planner/measured_cluster.hpp"

#include <gtest/gtest.h>

#include "planner/routes.hpp"

namespace dynpipe::planner {
namespace {

model::Profile profile_of_links(std::vector<model::LinkProfile> links) {
  model::Profile profile;
  profile.links = std::move(links);
  return profile;
}

TEST(MeasuredClusterTest, MeasuredPairsHaveTheirLinkOthersTheWorst) {
  const Cluster cluster = measured_cluster(
      profile_of_links({{0, 1, 1e-6, 9e9, 8e9, 0.5}, {1, 2, 5e-6, 2e9, 1e9, 1}}), 4);
  Routes routes(cluster);
  EXPECT_DOUBLE_EQ(routes.between(1, 0).latency_s, 1e-6);
  EXPECT_DOUBLE_EQ(routes.between(1, 0).bytes_per_s, 8e9);
  EXPECT_DOUBLE_EQ(routes.between(1, 0).overlap, 0.5);
  EXPECT_DOUBLE_EQ(routes.between(1, 2).bytes_per_s, 1e9);
  EXPECT_DOUBLE_EQ(routes.between(1, 2).overlap, 1);
  for (const auto& [from, to] : {std::pair{0, 2}, std::pair{3, 1}}) {
    EXPECT_DOUBLE_EQ(routes.between(from, to).latency_s, 5e-6);
    EXPECT_DOUBLE_EQ(routes.between(from, to).bytes_per_s, 1e9);
    EXPECT_DOUBLE_EQ(routes.between(from, to).overlap, 0.5);
  }
}

TEST(MeasuredClusterTest, RanksAreAsSlowAsTheyWereMeasuredWhereTheyAreTheSame) {
  model::Profile profile = profile_of_links({{0, 1, 1e-6, 9e9, 8e9, 1}});
  profile.slowdowns = {0.97, 1.03};
  EXPECT_EQ(measured_cluster(profile, 2).ranks[1].slowdown, 1);
  profile.slowdowns = {0.9, 1.1};
  EXPECT_EQ(measured_cluster(profile, 2).ranks[1].slowdown, 1.1);
  EXPECT_EQ(measured_cluster(profile, 3).ranks[1].slowdown, 1);
}

TEST(MeasuredClusterTest, WithoutMeasuredLinksMessagesTakeNoTime) {
  const Cluster cluster = measured_cluster({}, 2);
  Routes routes(cluster);
  const Route& route = routes.between(0, 1);
  EXPECT_EQ(route.latency_s, 0);
  EXPECT_LT(1e12 / route.bytes_per_s, 1e-9);
}

}  // namespace
}  // namespace dynpipe::planner
