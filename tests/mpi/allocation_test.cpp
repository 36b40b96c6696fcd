// A steady-state step allocates nothing: a counter proves it, over real MPI ranks.
#include <gtest/gtest.h>

#include <map>

#include "mpi/mpi_fixture.hpp"
#include "probe/activity.hpp"
#include "support/allocation_count.hpp"
#include "support/random_scenario.hpp"

namespace dynpipe::testing {
namespace {

/// Notes how often this rank has allocated by the time it asks for each group for the first time.
class CountingFeed final : public pipeline::Feed {
 public:
  CountingFeed(const ScenarioFeed& feed, std::int64_t groups, int microbatches)
      : feed_(feed), microbatches_(microbatches), counts_(static_cast<std::size_t>(groups), -1) {}

  std::int64_t size(std::int64_t microbatch) const override {
    std::int64_t& count = counts_[static_cast<std::size_t>(microbatch / microbatches_)];
    if (count < 0) count = allocation_count();
    return feed_.size(microbatch);
  }
  std::int64_t group_size(std::int64_t group) const override { return feed_.group_size(group); }
  std::span<const std::uint64_t> samples(std::int64_t microbatch) const override {
    return feed_.samples(microbatch);
  }
  void write_input(std::int64_t microbatch, const tensor::Tensor& x) const override {
    feed_.write_input(microbatch, x);
  }
  void write_labels(std::int64_t microbatch, const tensor::Tensor& labels) const override {
    feed_.write_labels(microbatch, labels);
  }

  /// Between the first questions for two groups.
  std::int64_t allocations(std::int64_t from, std::int64_t to) const {
    return counts_[static_cast<std::size_t>(to)] - counts_[static_cast<std::size_t>(from)];
  }

 private:
  const ScenarioFeed& feed_;
  int microbatches_;
  mutable std::vector<std::int64_t> counts_;
};

class MpiAllocationTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t k_updates = 40, k_settled = 20;

  void expect_none(Scenario scenario) {
    scenario.dtype = tensor::DType::float32;
    scenario.onednn = true;
    scenario.updates = k_updates;
    scenario.group_sizes = {8};
    const auto part = mpi_world()->first(scenario.plan.ranks());
    if (!part) return;
    const base::SteadyClock clock;
    const auto channel = comm::make_mpi_channel(*part, clock, {.deadline_s = 60, .nap_s = 20e-6});
    device::CpuDevice device;
    const auto ops = ops::make_onednn_ops();
    const ScenarioFeed feed(scenario);
    const CountingFeed counting(feed, k_updates, scenario.plan.microbatches);
    pipeline::Worker worker({scenario.model,
                             scenario.plan,
                             device,
                             *channel,
                             *ops,
                             clock,
                             scenario.optimizer,
                             scenario.learning_rate,
                             scenario.largest_microbatch(),
                             scenario.seed,
                             {},
                             1,
                             {},
                             0,
                             0,
                             nullptr,
                             {},
                             nullptr,
                             true});
    worker.load(scenario.initial, 0, "the test");
    worker.train({0, k_updates}, 0, counting);
    EXPECT_EQ(counting.allocations(k_settled, k_updates - 1), 0) << describe(scenario);
  }
};

TEST_F(MpiAllocationTest, NoneInSteadyState) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    expect_none(random_scenario(seed + 7000, {.ranks = mpi_world()->size()}));
  }
}

TEST_F(MpiAllocationTest, NoneInReadingWhatTheOsCounts) {
  const base::SteadyClock clock;
  probe::Activity activity(clock);
  const std::int64_t before = allocation_count();
  const probe::ActivitySample sample = activity.sample();
  EXPECT_EQ(allocation_count(), before);
  EXPECT_GE(sample.interval_s, 0);
}

TEST_F(MpiAllocationTest, TheCounterCounts) {
  const std::int64_t before = allocation_count();
  const auto something = std::make_unique<int>(1);
  EXPECT_EQ(allocation_count(), before + 1) << *something;
}

}  // namespace
}  // namespace dynpipe::testing
