#include "app/dry_run.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <numeric>
#include <vector>

#include "app/backend.hpp"
#include "app/memory_forecast.hpp"
#include "app/rank_places.hpp"
#include "app/train_inputs.hpp"
#include "app/train_report.hpp"
#include "base/errors.hpp"
#include "pipeline/stage_memory.hpp"
#include "probe/placement_warnings.hpp"
#include "schedule/timing.hpp"

namespace dynpipe::app {
namespace {

std::vector<schedule::StepCosts> costs_by_flops(const model::Model& model, const plan::Plan& plan) {
  std::vector<schedule::StepCosts> costs;
  for (const plan::Stage& stage : plan.stages) {
    double flops = 0;
    for (const model::Layer& layer : plan::layers_of(model, stage)) {
      flops += static_cast<double>(layer.facts.forward_flops);
    }
    costs.push_back({flops, flops, flops});
  }
  return costs;
}

/// The rooms of all ranks; of a plan for more ranks than there are, as this one would be.
std::vector<RankRoom> rooms_of(const TrainOptions& options, const plan::Plan& plan,
                               const RankRoom& own, comm::World& world) {
  if (!options.ranks) return share_rooms(world, own);
  std::vector<RankRoom> rooms(static_cast<std::size_t>(*options.ranks), own);
  for (int s = 1; s + 1 < plan.size(); ++s) {  // samples are read by the first and the last stage
    for (int rank : plan.stages[static_cast<std::size_t>(s)].ranks) {
      rooms[static_cast<std::size_t>(rank)].data_bytes = 0;
      rooms[static_cast<std::size_t>(rank)].peak_bytes = own.program_bytes;
    }
  }
  return rooms;
}

std::vector<std::string> warnings_of(const TrainOptions& options, const TrainInputs& inputs,
                                     const std::vector<probe::RankPlace>& places,
                                     const MemoryVerdict& memory) {
  std::vector<std::string> warnings = plan_warnings(options, inputs);
  if (!options.ranks) {
    for (const auto& warning : probe::placement_warnings(places)) warnings.push_back(warning.text);
  }
  warnings.insert(warnings.end(), memory.warnings.begin(), memory.warnings.end());
  return warnings;
}

void report(const TrainOptions& options, const TrainInputs& inputs,
            const std::vector<probe::RankPlace>& places, const std::vector<RankRoom>& rooms,
            const ops::Ops& ops) {
  const std::int64_t largest =
      (options.batch + inputs.plan.microbatches - 1) / inputs.plan.microbatches;
  const auto memory = forecast_memory(inputs.model, inputs.plan, largest, options.optimizer, ops,
                                      rooms, options.checkpoints.enabled());
  fmt::print("{}\n", describe_start(options, inputs, ops.name()));
  if (!options.ranks) fmt::print("{}\n", describe_places(places));
  fmt::print("{}\n{}", describe_memory(memory), describe_waiting(inputs.model, inputs.plan));
  std::fflush(stdout);
  const MemoryVerdict verdict = judge_memory(memory);
  for (const std::string& warning : warnings_of(options, inputs, places, verdict)) {
    fmt::print(stderr, "dynpipe: warning: {}\n", warning);
  }
  if (!verdict.refusals.empty()) {
    throw base::InputError(options.model, "memory", verdict.refusals.front());
  }
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

void dry_run(const TrainOptions& options, comm::World& world) {
  const std::int64_t program_bytes = resident_bytes();
  const TrainInputs inputs = read_train_inputs(options, world);
  const auto places = share_places(world, uses_onednn(options) ? options.threads : 1);
  const auto ops = make_ops(options, places[static_cast<std::size_t>(world.rank())].threads);
  const std::vector<RankRoom> rooms =
      rooms_of(options, inputs.plan, own_room(world.host(), program_bytes), world);
  world.together([&] {
    if (world.rank() == 0) report(options, inputs, places, rooms, *ops);
  });
}

std::string describe_waiting(const model::Model& model, const plan::Plan& plan) {
  const std::vector<schedule::StepCosts> equal(plan.stages.size());
  const std::vector<double> shares = schedule::waiting_shares(plan, costs_by_flops(model, plan));
  std::string text = "stage  rank  versions  activations held  waiting\n";
  for (int s = 0; s < plan.size(); ++s) {
    for (int rank : plan.stages[static_cast<std::size_t>(s)].ranks) {
      text += fmt::format("{:>5}  {:>4}  {:>8}  {:>17}  {:>5.0f} %\n", s, rank, plan.delay(s) + 1,
                          pipeline::largest_footprint(plan, rank).activations,
                          100 * shares[static_cast<std::size_t>(rank)]);
    }
  }
  return text + fmt::format(
                    "\nRanks wait {:.0f} % of the time by FLOPs, {:.0f} % if stages took equally "
                    "long (full pipeline,\nwithout transfers and updates).\n",
                    100 * mean(shares), 100 * mean(schedule::waiting_shares(plan, equal)));
}

}  // namespace dynpipe::app
