#include "pipeline/stage_memory.hpp"

#include <gtest/gtest.h>

#include "device/cpu/cpu_device.hpp"
#include "support/random_scenario.hpp"

namespace dynpipe::testing {
namespace {

using pipeline::StageMemory;

/// A CPU that remembers how much was asked of it.
class CountingDevice final : public device::Device {
 public:
  device::Buffer allocate(std::size_t bytes) override {
    bytes_ += bytes;
    return cpu_.allocate(bytes);
  }
  std::unique_ptr<device::Stream> make_stream(std::string_view name) override {
    return cpu_.make_stream(name);
  }
  std::string description() const override { return "counting"; }
  std::size_t bytes() const { return bytes_; }

 private:
  device::CpuDevice cpu_;
  std::size_t bytes_ = 0;
};

std::unique_ptr<ops::Ops> ops_of(const Scenario& scenario) {
  return scenario.onednn ? ops::make_onednn_ops() : ops::make_reference_ops(scenario.dtype);
}

StageMemory memory_of(const Scenario& scenario, int rank) {
  return pipeline::stage_memory(scenario.model, scenario.plan, rank, scenario.largest_microbatch(),
                                scenario.optimizer, *ops_of(scenario));
}

std::size_t allocated_by(const Scenario& scenario, int rank) {
  const base::SteadyClock clock;
  comm::LoopbackHub hub({});
  const auto channel = hub.make_channel(rank, clock, {});
  const auto ops = ops_of(scenario);
  CountingDevice device;
  const pipeline::Worker worker({scenario.model,
                                 scenario.plan,
                                 device,
                                 *channel,
                                 *ops,
                                 clock,
                                 scenario.optimizer,
                                 scenario.learning_rate,
                                 scenario.largest_microbatch(),
                                 scenario.seed,
                                 {}});
  return device.bytes();
}

TEST(StageMemoryTest, IsWhatAWorkerAllocates) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Scenario scenario = random_scenario(seed);
    if (seed % 2 == 0) {
      scenario.dtype = tensor::DType::float32;
      scenario.onednn = true;
    }
    for (int rank = 0; rank < scenario.plan.ranks(); ++rank) {
      EXPECT_EQ(memory_of(scenario, rank).total(), allocated_by(scenario, rank))
          << describe(scenario) << ", rank " << rank;
    }
  }
}

TEST(StageMemoryTest, OnlySplitBackwardsKeepDeferredGradients) {
  Scenario scenario = random_scenario(1);
  scenario.plan = plan::equal_flops_plan(
      scenario.model, {plan::Schedule::one_f_one_b, plan::WeightPolicy::stash, 4, {1, 1, 1}});
  const std::size_t whole = memory_of(scenario, 2).total();
  EXPECT_EQ(memory_of(scenario, 2).deferred_gradients.count, 0);
  scenario.plan.schedule = plan::Schedule::zb_h1;
  EXPECT_EQ(memory_of(scenario, 0).deferred_gradients.count, 1);
  EXPECT_EQ(memory_of(scenario, 2).deferred_gradients.count, 3);
  EXPECT_GT(memory_of(scenario, 2).total(), whole);
}

TEST(StageMemoryTest, RecomputingKeepsOneArenaAndInputs) {
  Scenario scenario = random_scenario(1);
  for (const auto schedule : {plan::Schedule::gpipe, plan::Schedule::one_f_one_b,
                              plan::Schedule::zb_h1, plan::Schedule::asynchronous}) {
    scenario.plan = plan::equal_flops_plan(scenario.model,
                                           {schedule, plan::WeightPolicy::stash, 8, {1, 1, 1, 1}});
    const StageMemory all = memory_of(scenario, 0);
    plan::set_recompute(scenario.plan, "0", "");
    const StageMemory lean = memory_of(scenario, 0);
    EXPECT_GE(all.activations.count, 4);
    EXPECT_EQ(lean.activations.count, 1);
    EXPECT_EQ(lean.inputs.count, all.inputs.count);
    EXPECT_LT(lean.total(), all.total());
  }
}

}  // namespace
}  // namespace dynpipe::testing
