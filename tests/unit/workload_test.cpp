#include "planner/workload.hpp"

#include <gtest/gtest.h>

#include "planner/profile_cluster.hpp"
#include "planner/transfers.hpp"
#include "support/random_scenario.hpp"

namespace dynpipe::planner {
namespace {

/// Layer i takes i + 1, 10 (i + 1) and 100 (i + 1) seconds a sample.
model::Profile profile_of(int layers) {
  model::Profile profile;
  profile.samples = {1};
  for (int i = 1; i <= layers; ++i) {
    model::LayerProfile layer;
    layer.times = {{1.0 * i, 10.0 * i, 100.0 * i}};
    layer.update_s = 1000.0 * i;
    layer.output_bytes = 4 * i;
    layer.parameter_bytes = 8 * i;
    profile.layers.push_back(layer);
  }
  return profile;
}

TEST(WorkloadTest, AddsUpTheLayersOfEachStage) {
  plan::Plan plan;
  plan.microbatches = 3;
  plan.stages = {{0, 1, {2, 0}, {0, 1, 0}, 1}, {2, 3, {1}, {0, 0, 0}, 0}};
  const Workload work = workload_of(profile_of(4), plan, 8);  // 3, 3 and 2 samples
  EXPECT_EQ(work.larger, 2);
  ASSERT_EQ(work.ranks.size(), 3U);
  EXPECT_DOUBLE_EQ(work.ranks[0].large.forward_s, 3 * 3);
  EXPECT_DOUBLE_EQ(work.ranks[0].small.forward_s, 3 * 2);
  EXPECT_DOUBLE_EQ(work.ranks[2].large.backward_input_s, 30 * 3);
  EXPECT_DOUBLE_EQ(work.ranks[1].large.backward_weight_s, 700 * 3);
  EXPECT_DOUBLE_EQ(work.ranks[1].update_s, 7000);
  EXPECT_EQ(work.ranks[1].gradient_bytes, 56);
  EXPECT_EQ(work.ranks[0].large.output_bytes, 8 * 3);
  EXPECT_EQ(work.ranks[1].large.output_bytes, 0);  // the last stage
}

TEST(WorkloadTest, EmptyMicrobatchesCostNothing) {
  plan::Plan plan;
  plan.microbatches = 4;
  plan.stages = {{0, 1, {0}, {0, 0, 0, 0}, 1}, {2, 3, {1}, {0, 0, 0, 0}, 0}};
  const Workload work = workload_of(profile_of(4), plan, 3);
  EXPECT_EQ(work.larger, 3);
  EXPECT_EQ(work.ranks[0].small.forward_s, 0);
  EXPECT_EQ(work.ranks[0].small.output_bytes, 0);
}

TEST(WorkloadTest, ByFlopsHasNoGradientOfTheImages) {
  const model::Model model = testing::plain_model();
  const model::Profile profile = profile_by_flops(model, 1e9);
  ASSERT_EQ(profile.layers.size(), model.layers.size());
  const model::LayerTimes first = profile.times(0, 2);
  EXPECT_DOUBLE_EQ(first.forward_s,
                   2e-9 * static_cast<double>(model.layers[0].facts.forward_flops));
  EXPECT_EQ(first.backward_input_s, 0);
  EXPECT_DOUBLE_EQ(first.backward_weight_s, first.forward_s);
  const model::LayerTimes relu = profile.times(1, 1);
  EXPECT_EQ(relu.backward_weight_s, 0);
  EXPECT_DOUBLE_EQ(relu.backward_input_s, relu.forward_s);
  EXPECT_EQ(profile.layers[0].output_bytes, 4 * model.layers[0].facts.output.elements());
}

TEST(ProfileClusterTest, GivesEachLinkWhatWasMeasuredOneWayAndBoth) {
  model::Profile profile;
  profile.links = {{0, 1, 2e-6, 4e9, 3e9, 0.5}, {1, 2, 1e-6, 4e9, 4e9, 1}};
  const Cluster cluster = cluster_of(profile, ranks_of(profile));
  EXPECT_EQ(cluster.size(), 3);
  Transfers transfers(cluster);
  const Route& there = transfers.route(0, 1);
  EXPECT_DOUBLE_EQ(there.latency_s, 2e-6);
  EXPECT_EQ(there.overlap, 0.5);
  const auto last_arrival_s = [&] {
    double last_s = 0;
    while (transfers.advance()) {
      for (const Transfers::Arrival& arrival : transfers.arrivals()) last_s = arrival.time_s;
    }
    return last_s;
  };
  transfers.depart(there, 4e9, 0, 1);
  EXPECT_NEAR(last_arrival_s(), 1, 1e-5);
  transfers.depart(there, 3e9, 10, 2);
  transfers.depart(transfers.route(1, 0), 3e9, 10, 3);
  EXPECT_NEAR(last_arrival_s(), 11, 1e-5);
}

TEST(ProfileClusterTest, OtherPairsMeetNoBetterThanTheWorst) {
  model::Profile profile;
  profile.links = {{0, 1, 1e-6, 9e9, 8e9, 0.5}, {1, 2, 5e-6, 2e9, 1e9, 1}};
  const Cluster cluster = cluster_of(profile, 4);
  Routes routes(cluster);
  for (const auto& [from, to] : {std::pair{0, 2}, std::pair{3, 1}}) {
    EXPECT_NEAR(routes.between(from, to).latency_s, 5e-6, 1e-8);
    EXPECT_DOUBLE_EQ(routes.between(from, to).bytes_per_s, 1e9);
    EXPECT_EQ(routes.between(from, to).overlap, 0.5);
    EXPECT_EQ(routes.between(from, to).channels.size(), 2U);
  }
}

TEST(ProfileClusterTest, RanksAreEqualUnlessTheyWereFarApart) {
  model::Profile profile;
  profile.links = {{0, 1, 1e-6, 9e9, 8e9, 1}};
  profile.slowdowns = {0.97, 1.03};
  EXPECT_EQ(cluster_of(profile, 2).ranks[1].slowdown, 1);
  profile.slowdowns = {0.9, 1.1};
  EXPECT_EQ(cluster_of(profile, 2).ranks[1].slowdown, 1.1);
  EXPECT_EQ(cluster_of(profile, 3).ranks[1].slowdown, 1);
}

TEST(ProfileClusterTest, WithoutMeasuredLinksMessagesTakeNoTime) {
  const Cluster cluster = cluster_of({}, 2);
  Routes routes(cluster);
  EXPECT_EQ(routes.between(0, 1).latency_s, 0);
  EXPECT_LT(1e12 / routes.between(0, 1).bytes_per_s, 1e-9);
}

}  // namespace
}  // namespace dynpipe::planner
