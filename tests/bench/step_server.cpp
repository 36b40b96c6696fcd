// One rank that trains on demand, for benchmarks that alternate it with something else: reads a
// number of updates per line from standard input and answers with the seconds that they took.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "base/clock.hpp"
#include "comm/loopback/loopback_channel.hpp"
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

int serve(const std::string& model_file, std::int64_t batch, int microbatches) {
  testing::Scenario scenario;
  scenario.model = model::parse_model(read(model_file), model_file, nn::layer_types());
  scenario.plan =
      plan::equal_flops_plan(scenario.model, {plan::Schedule::one_f_one_b, {}, microbatches, {1}});
  scenario.samples = testing::random_samples(
      scenario.model.input, scenario.model.layers.back().facts.output[0], batch, 1);
  scenario.group_sizes = {batch};
  scenario.optimizer.momentum = 0.9;
  scenario.updates = 2'000;

  const base::SteadyClock clock;
  comm::LoopbackHub hub({});
  const auto channel = hub.make_channel(0, clock, {});
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
  for (std::int64_t updates; std::cin >> updates;) {
    const double began_s = clock.now_s();
    worker.train({done, done + updates}, 0, feed);
    done += updates;
    fmt::print("{:.6f}\n", clock.now_s() - began_s);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: step_server MODEL BATCH MICROBATCHES\n");
    return 2;
  }
  return serve(argv[1], std::atoll(argv[2]), std::atoi(argv[3]));
}
