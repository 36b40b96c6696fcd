// How much of the ranks' speed a pipeline keeps, and what the runtime costs, in alternation:
//
//   pipeline   an asynchronous pipeline over these ranks
//   apart      every rank computes its stage by itself, with no pipeline between them
//   runtime    the instructions of a step with operations that do nothing and messages that are
//              complete at once
//   fewer      the pipeline over half the ranks (with more ranks than cores: what they cost)
//
// mpirun -n RANKS pipeline_bench MODEL BATCH MICROBATCHES ROUNDS [PLAN]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

#include "bench/null_channel.hpp"
#include "bench/null_ops.hpp"
#include "comm/mpi/mpi.hpp"
#include "device/cpu/cpu_device.hpp"
#include "nn/parameters.hpp"
#include "pipeline/worker.hpp"
#include "support/scenario.hpp"

namespace dynpipe::bench {
namespace {

std::string read(const std::string& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

struct Request {
  std::string model_file;
  std::int64_t batch;
  int microbatches;
  int rounds;
  std::string plan_file;
};

/// One pipeline, or one rank of it by itself, that trains when asked.
class Trainer {
 public:
  Trainer(const Request& request, int ranks, comm::Channel& channel, ops::Ops& ops,
          const base::Clock& clock)
      : clock_(clock) {
    scenario_.model =
        model::parse_model(read(request.model_file), request.model_file, nn::layer_types());
    scenario_.plan =
        request.plan_file.empty()
            ? plan::equal_flops_plan(
                  scenario_.model,
                  {plan::Schedule::asynchronous, plan::WeightPolicy::double_buffer,
                   request.microbatches, std::vector<int>(static_cast<std::size_t>(ranks), 1)})
            : plan::parse_plan(read(request.plan_file), request.plan_file, scenario_.model, ranks);
    scenario_.samples = testing::random_samples(
        scenario_.model.input, scenario_.model.layers.back().facts.output[0], request.batch, 1);
    scenario_.group_sizes = {request.batch};
    scenario_.updates = 2'000;
    feed_.emplace(scenario_);
    worker_.emplace(pipeline::WorkerSetup{scenario_.model,
                                          scenario_.plan,
                                          device_,
                                          channel,
                                          ops,
                                          clock,
                                          scenario_.optimizer,
                                          {.kind = nn::LearningRateKind::constant, .base = 1e-4},
                                          scenario_.largest_microbatch(),
                                          1,
                                          {}});
    worker_->load(nn::initial_state(scenario_.model.layers, 1), 0, request.model_file);
  }

  double seconds(std::int64_t updates) {
    const double began_s = clock_.now_s();
    worker_->train({done_, done_ + updates}, 0, *feed_);
    done_ += updates;
    return clock_.now_s() - began_s;
  }

 private:
  const base::Clock& clock_;
  testing::Scenario scenario_;
  std::optional<testing::ScenarioFeed> feed_;
  device::CpuDevice device_;
  std::optional<pipeline::Worker> worker_;
  std::int64_t done_ = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run(comm::World& world, const Request& request) {
  const base::SteadyClock clock;
  const comm::WaitPolicy policy{.deadline_s = 120, .spin_s = world.size() <= 2 ? 50e-6 : 0};
  const auto channel = comm::make_mpi_channel(world, clock, policy);
  const auto ops = ops::make_onednn_ops(1);
  NullChannel alone(world.rank(), clock);
  NullOps nothing;
  Trainer pipeline(request, world.size(), *channel, *ops, clock);
  Trainer apart(request, world.size(), alone, *ops, clock);
  Trainer runtime(request, world.size(), alone, nothing, clock);
  const auto half = world.first(std::max(1, world.size() / 2));
  const auto half_channel = half ? comm::make_mpi_channel(*half, clock, policy) : nullptr;
  std::optional<Trainer> fewer;
  if (half && request.plan_file.empty()) {
    fewer.emplace(request, half->size(), *half_channel, *ops, clock);
  }

  const auto slowest = [&](double seconds) {
    double most = 0;
    std::vector<double> all(static_cast<std::size_t>(world.size()), 0.0);
    all[static_cast<std::size_t>(world.rank())] = seconds;
    for (const double one : world.sum(all)) most = std::max(most, one);
    return most;
  };
  constexpr std::int64_t k_updates = 25;  // filling and draining the pipeline are in its time
  constexpr double k_ms = 1e3 / k_updates;
  std::vector<double> kept, of_half, share;
  for (int round = -1; round < request.rounds; ++round) {
    world.barrier();
    const double pipeline_s = slowest(pipeline.seconds(k_updates));
    world.barrier();
    const double apart_s = slowest(apart.seconds(k_updates));
    world.barrier();
    const double runtime_s = slowest(runtime.seconds(k_updates));
    world.barrier();
    const double fewer_s = slowest(fewer ? fewer->seconds(k_updates) : 0.0);
    if (round < 0) continue;  // the first is for caches and generated code
    kept.push_back(apart_s / pipeline_s);
    share.push_back(runtime_s / apart_s);
    of_half.push_back(fewer_s / pipeline_s);
    if (world.rank() == 0) {
      fmt::print("{:8.1f} ms pipeline {:8.1f} apart {:8.3f} runtime {:8.1f} half the ranks\n",
                 k_ms * pipeline_s, k_ms * apart_s, k_ms * runtime_s, k_ms * fewer_s);
    }
  }
  if (world.rank() != 0) return;
  const auto spread = [](const std::vector<double>& values) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    return fmt::format("{:6.1f} %  ({:.1f} to {:.1f})", 100 * median(values), 100 * *low,
                       100 * *high);
  };
  fmt::print("\nspeed of the pipeline, of its ranks apart   {}\n", spread(kept));
  fmt::print("speed of the pipeline, of half the ranks    {}\n", spread(of_half));
  fmt::print("runtime, of a step                          {}\n", spread(share));
}

}  // namespace
}  // namespace dynpipe::bench

int main(int argc, char** argv) {
  const auto world = dynpipe::comm::make_mpi_world(&argc, &argv);
  if (argc < 5) {
    if (world->rank() == 0) {
      fmt::print(stderr, "usage: pipeline_bench MODEL BATCH MICROBATCHES ROUNDS [PLAN]\n");
    }
    return 2;
  }
  dynpipe::bench::run(*world, {argv[1], std::atoll(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]),
                               argc > 5 ? argv[5] : ""});
  return 0;
}
