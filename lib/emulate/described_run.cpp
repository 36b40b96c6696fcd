#include "emulate/described_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/errors.hpp"

namespace dynpipe::emulate {
namespace {

/// The cluster as it is from `start_s` on, that moment being 0.
planner::Cluster from(const planner::Cluster& cluster, double start_s) {
  planner::Cluster later = cluster;
  for (planner::Interference& event : later.events) {
    event.start_s = std::max(0.0, event.start_s - start_s);
    event.end_s -= start_s;
  }
  std::erase_if(later.events, [](const auto& event) { return event.end_s <= event.start_s; });
  return later;
}

}  // namespace

DescribedRun::DescribedRun(const plan::Plan& plan, int rank, const planner::Workload& work,
                           const planner::Cluster& cluster, std::uint64_t seed)
    : plan_(plan), rank_(rank), work_(work), cluster_(cluster), seed_(seed) {
  if (cluster.size() < plan.ranks()) {
    throw base::InputError(cluster.name, "ranks",
                           fmt::format("are {}, the job has {}", cluster.size(), plan.ranks()));
  }
}

void DescribedRun::begin_training(schedule::Segment segment) {
  first_group_ = segment.first_group;
  streams_ = schedule::training_streams(plan_, segment);
  began_s_ = end_s_;
  work_out();
}

void DescribedRun::begin_evaluation(std::int64_t count) {
  streams_ = schedule::evaluation_streams(plan_, count);
  began_s_ = end_s_;
  work_out();
}

void DescribedRun::shorten(std::int64_t end_group) {
  for (schedule::Stream& stream : streams_) {
    stream = schedule::ended_before(std::move(stream), end_group, plan_.microbatches);
  }
  work_out();
}

void DescribedRun::work_out() {
  planner::SimulatedRun run = planner::simulate(plan_, streams_, work_, from(cluster_, began_s_),
                                                {.seed = seed_, .keep_steps = true});
  steps_ = std::move(run.ranks[static_cast<std::size_t>(rank_)].steps);
  std::erase_if(steps_, [](const auto& step) {
    return step.instruction.op == schedule::Op::receive ||
           step.instruction.op == schedule::Op::send;
  });
  for (planner::SimulatedStep& step : steps_) {
    step.ready_s += began_s_;
    step.start_s += began_s_;
    step.end_s += began_s_;
  }
  end_s_ = began_s_ + run.end_s;
  updates_s_ = std::move(run.updates_s);
}

double DescribedRun::update_s(std::int64_t group) const {
  return began_s_ + updates_s_.at(static_cast<std::size_t>(group - first_group_));
}

}  // namespace dynpipe::emulate
