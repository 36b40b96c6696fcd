// Ranks that train on demand, for benchmarks that alternate them with something else: the first
// reads a number of updates per line from standard input and answers with the seconds that they
// took.
//
// [mpirun -n RANKS] step_server MODEL BATCH MICROBATCHES [SCHEDULE]
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "base/clock.hpp"
#include "comm/mpi/mpi.hpp"
#include "device/cpu/cpu_device.hpp"
#include "nn/layer.hpp"
#include "nn/parameters.hpp"
#include "pipeline/worker.hpp"
#include "support/scenario.hpp"

namespace {

using namespace dynpipe;

std::string read(const std::string& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// The next number of updates, on all ranks; 0: there are no more.
std::int64_t next_count(comm::World& world) {
  std::int64_t updates = 0;
  if (world.rank() == 0 && !(std::cin >> updates)) updates = 0;
  return std::atoll(world.broadcast(std::to_string(updates)).c_str());
}

void serve(comm::World& world, const std::string& model_file, std::int64_t batch, int microbatches,
           const std::string& schedule) {
  testing::Scenario scenario;
  scenario.model = model::parse_model(read(model_file), model_file, nn::layer_types());
  scenario.plan = plan::equal_flops_plan(
      scenario.model,
      {plan::schedule_named(schedule, "", "SCHEDULE"), plan::WeightPolicy::double_buffer,
       microbatches, std::vector<int>(static_cast<std::size_t>(world.size()), 1)});
  scenario.samples = testing::random_samples(
      scenario.model.input, scenario.model.layers.back().facts.output[0], batch, 1);
  scenario.group_sizes = {batch};
  scenario.optimizer.momentum = 0.9;
  scenario.updates = 2'000;

  const base::SteadyClock clock;
  const auto channel = comm::make_mpi_channel(world, clock, {.deadline_s = 120, .spin_s = 50e-6});
  device::CpuDevice device;
  const auto ops = ops::make_onednn_ops(1);
  pipeline::Worker worker({scenario.model,
                           scenario.plan,
                           device,
                           *channel,
                           *ops,
                           clock,
                           scenario.optimizer,
                           {.kind = nn::LearningRateKind::constant, .base = 0.01},
                           scenario.largest_microbatch(),
                           1,
                           {}});
  worker.load(nn::initial_state(scenario.model.layers, 1), 0, model_file);
  const testing::ScenarioFeed feed(scenario);
  std::int64_t done = 0;
  while (const std::int64_t updates = next_count(world)) {
    const double began_s = clock.now_s();
    worker.train({done, done + updates}, 0, feed);
    done += updates;
    if (world.rank() == 0) fmt::print("{:.6f}\n", clock.now_s() - began_s);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto world = comm::make_mpi_world(&argc, &argv);
  if (argc < 4) {
    fmt::print(stderr, "usage: step_server MODEL BATCH MICROBATCHES [SCHEDULE]\n");
    return 2;
  }
  serve(*world, argv[1], std::atoll(argv[2]), std::atoi(argv[3]), argc > 4 ? argv[4] : "1f1b");
  return 0;
}
