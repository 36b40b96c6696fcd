#include "app/simulation_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

namespace dynpipe::app {
namespace {

using planner::SimulatedStep;
using schedule::Op;

constexpr int k_compute = 1;  ///< thread; messages come after it

class Events {
 public:
  void process_name(int rank, const std::string& name) {
    metadata("process_name", rank, 0, name);
    add(R"("ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}})", rank, rank);
  }
  void thread_name(int rank, int thread, const std::string& name) {
    metadata("thread_name", rank, thread, name);
  }
  void span(int rank, int thread, std::string_view category, const std::string& name,
            double start_s, double end_s) {
    add(R"("ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f})", category,
        name, rank, thread, 1e6 * start_s, 1e6 * (end_s - start_s));
  }
  std::string text() const {
    return fmt::format(
        "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"clock\":\"simulated\"}},"
        "\"traceEvents\":[\n{}\n]}}\n",
        fmt::to_string(events_));
  }

 private:
  void metadata(std::string_view what, int rank, int thread, const std::string& name) {
    add(R"("ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}})", what, rank, thread,
        nlohmann::json(name).dump());
  }
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (events_.size() > 0) fmt::format_to(std::back_inserter(events_), ",\n");
    events_.push_back('{');
    fmt::format_to(std::back_inserter(events_), format, std::forward<Args>(args)...);
    events_.push_back('}');
  }

  fmt::memory_buffer events_;
};

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

/// Messages to one rank, each on the first thread that is free again.
class Lanes {
 public:
  int place(double start_s, double end_s) {
    const auto free = std::ranges::find_if(ends_s_, [&](double end) { return end <= start_s; });
    const auto lane = free - ends_s_.begin();
    if (free == ends_s_.end()) {
      ends_s_.push_back(end_s);
    } else {
      *free = end_s;
    }
    return k_compute + 1 + static_cast<int>(lane);
  }
  int count() const { return static_cast<int>(ends_s_.size()); }

 private:
  std::vector<double> ends_s_;
};

void add_messages(Events& events, int rank, const std::vector<SimulatedStep>& steps) {
  std::vector<const SimulatedStep*> messages;
  for (const SimulatedStep& step : steps) {
    if (step.instruction.op == Op::receive) messages.push_back(&step);
  }
  std::ranges::stable_sort(messages, {}, &SimulatedStep::start_s);
  Lanes lanes;
  for (const SimulatedStep* message : messages) {
    const schedule::Instruction& what = message->instruction;
    events.span(
        rank, lanes.place(message->start_s, message->end_s), "message",
        fmt::format("{} {} from rank {}", schedule::name_of(what.payload), what.index, what.peer),
        message->start_s, message->end_s);
  }
  for (int lane = 0; lane < lanes.count(); ++lane) {
    events.thread_name(rank, k_compute + 1 + lane,
                       lane == 0 ? "messages" : fmt::format("messages {}", lane + 1));
  }
}

}  // namespace

std::string trace_events(const plan::Plan& plan, const planner::Cluster& cluster,
                         const planner::SimulatedRun& run) {
  Events events;
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
