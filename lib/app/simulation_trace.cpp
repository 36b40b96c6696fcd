#include "app/simulation_trace.hpp"
#include "app/chrome_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace dynpipe::app {
namespace {

using planner::SimulatedStep;
using schedule::Op;

constexpr int k_compute = 1;  ///< thread; messages come after it

std::string step_name(const schedule::Instruction& step) {
  const std::string_view letters = [&]() -> std::string_view {
    switch (step.op) {
      case Op::forward:
      case Op::forward_lean:
        return "F";
      case Op::recompute:
        return "R";
      case Op::backward:
      case Op::backward_input:
        return "B";
      case Op::backward_weight:
        return "W";
      case Op::update:
        return "update";
      default:
        return "?";
    }
  }();
  return fmt::format("{} {}", letters, step.index);
}

std::string_view wait_of(Op op) {
  if (op == Op::update_wait) return "wait for the sum";
  return schedule::makes_activation(op) ? "wait for an activation" : "wait for a gradient";
}

void add_messages(ChromeTrace& events, int rank, const std::vector<SimulatedStep>& steps) {
  std::vector<const SimulatedStep*> messages;
  for (const SimulatedStep& step : steps) {
    if (step.instruction.op == Op::receive) messages.push_back(&step);
  }
  std::ranges::stable_sort(messages, {}, &SimulatedStep::start_s);
  std::vector<double> ends_s;  // of each thread; a message goes to the first that is free again
  for (const SimulatedStep* message : messages) {
    const schedule::Instruction& what = message->instruction;
    const auto lane =
        std::ranges::find_if(ends_s, [&](double end_s) { return end_s <= message->start_s; });
    const auto thread = k_compute + 1 + static_cast<int>(lane - ends_s.begin());
    if (lane == ends_s.end()) {
      ends_s.push_back(message->end_s);
    } else {
      *lane = message->end_s;
    }
    events.span(
        rank, thread, "message",
        fmt::format("{} {} from rank {}", schedule::name_of(what.payload), what.index, what.peer),
        message->start_s, message->end_s);
  }
  for (int lane = 0; lane < static_cast<int>(ends_s.size()); ++lane) {
    events.thread_name(rank, k_compute + 1 + lane,
                       lane == 0 ? "messages" : fmt::format("messages {}", lane + 1));
  }
}

}  // namespace

std::string trace_events(const plan::Plan& plan, const planner::Cluster& cluster,
                         const planner::SimulatedRun& run) {
  ChromeTrace events("simulated");
  for (int s = 0; s < plan.size(); ++s) {
    for (const int rank : plan.stages[static_cast<std::size_t>(s)].ranks) {
      const auto at = static_cast<std::size_t>(rank);
      events.process_name(rank,
                          fmt::format("rank {} ({}), stage {}", rank, cluster.ranks[at].name, s));
      events.thread_name(rank, k_compute, "compute");
      for (const SimulatedStep& step : run.ranks[at].steps) {
        if (step.instruction.op == Op::receive) continue;
        if (step.start_s > step.ready_s) {
          events.span(rank, k_compute, "wait", std::string(wait_of(step.instruction.op)),
                      step.ready_s, step.start_s);
        }
        if (step.end_s > step.start_s) {
          events.span(rank, k_compute, "step", step_name(step.instruction), step.start_s,
                      step.end_s);
        }
      }
      add_messages(events, rank, run.ranks[at].steps);
    }
  }
  return events.text();
}

}  // namespace dynpipe::app
