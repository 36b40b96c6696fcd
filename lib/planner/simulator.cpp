#include "planner/simulator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "planner/replay.hpp"
#include "planner/replica_sums.hpp"
#include "planner/step_costs.hpp"
#include "planner/timeline.hpp"
#include "planner/transfers.hpp"

namespace dynpipe::planner {
namespace {

using plan::Plan;
using schedule::Instruction;
using schedule::Op;
using schedule::Payload;
using schedule::Stream;

constexpr double k_never = std::numeric_limits<double>::infinity();

/// Numbers [first, end).
struct Range {
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), end = 0;

  void add(std::int64_t number) {
    first = std::min(first, number);
    end = std::max(end, number + 1);
  }
  std::size_t size() const { return end > first ? static_cast<std::size_t>(end - first) : 0; }
};

bool counts_groups(Op op) {
  return op == Op::reduce_start || op == Op::update_wait || op == Op::update;
}

/// A message of one stage's microbatch.
struct Message {
  double posted_s = -1;  ///< by the side that came first, until both have; then its departure
  double arrival_s = k_never;
  double unhidden_s = 0;  ///< of it, does not overlap with the receiver's steps
};

/// One rank working through its stream. It may be ahead of the clock of messages: what it does
/// depends on their arrivals alone.
struct RankRun {
  RankRun(const Stream& its_stream, const StepCosts& its_costs)
      : stream(its_stream), costs(its_costs) {}

  const Stream& stream;
  StepCosts costs;
  Timeline timeline;
  int stage = 0, replica = 0;
  std::size_t position = 0;
  double now_s = 0;
  bool waiting = false;  ///< at `position`
};

class Simulation {
 public:
  Simulation(const Plan& plan, std::span<const Stream> streams, const Workload& work,
             const Cluster& cluster, const SimulatorOptions& options,
             const MessageSeconds& message_seconds)
      : plan_(plan),
        work_(work),
        keep_steps_(options.keep_steps),
        seconds_(options.seconds),
        message_seconds_(message_seconds),
        waiting_(cluster.waiting),
        ranges_(streams),
        transfers_(cluster),
        sums_(plan, work, transfers_, ranges_.groups.first,
              ranges_.groups.first + static_cast<std::int64_t>(ranges_.groups.size())) {
    const auto disturbed = timelines(cluster.events, Interference::Of::rank, cluster.ranks.size());
    for (std::size_t rank = 0; rank < streams.size(); ++rank) {
      StepCosts costs(work.ranks[rank], work.larger, plan.microbatches,
                      cluster.ranks[rank].slowdown);
      if (cluster.jitter > 0) {
        costs.add_jitter(cluster.jitter, options.seed, static_cast<int>(rank));
      }
      ranks_.emplace_back(streams[rank], costs);
      ranks_.back().timeline = disturbed[rank];
    }
    const std::size_t stages = plan.stages.size();
    for (std::size_t s = 0; s < stages; ++s) {
      const plan::Stage& stage = plan.stages[s];
      for (std::size_t r = 0; r < stage.ranks.size(); ++r) {
        RankRun& run = ranks_[static_cast<std::size_t>(stage.ranks[r])];
        run.stage = static_cast<int>(s);
        run.replica = static_cast<int>(r);
      }
      const std::size_t next = s + 1 < stages ? plan.stages[s + 1].ranks.size() : 0;
      for (auto& routes : routes_) routes.emplace_back(stage.ranks.size() * next, nullptr);
    }
    messages_.resize(2 * stages * ranges_.microbatches.size());
    if (keep_steps_) step_of_message_.resize(messages_.size(), 0);
    result_.ranks.resize(streams.size());
    result_.updates_s.resize(ranges_.groups.size(), 0);
  }

  SimulatedRun run(const Cluster& cluster) {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) work_on(rank);
    for (;;) {
      wake();
      if (!transfers_.advance()) break;
      for (const Transfers::Arrival& arrival : transfers_.arrivals()) {
        if (ReplicaSums::owns(arrival.tag)) {
          sums_.arrived(arrival);
        } else {
          arrived(arrival.tag, arrival.time_s);
        }
      }
    }
    check_finished();
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      result_.ranks[rank].end_s = ranks_[rank].now_s;
      result_.end_s = std::max(result_.end_s, ranks_[rank].now_s);
    }
    for (std::size_t l = 0; l < cluster.links.size(); ++l) {
      const int channel = 2 * static_cast<int>(l);
      result_.links.push_back({transfers_.carried(channel), transfers_.carried(channel + 1)});
    }
    if (!plan_.synchronous()) result_.draining = plan_.delay(0) + 1;
    return std::move(result_);
  }

 private:
  /// What the streams are about.
  struct Ranges {
    explicit Ranges(std::span<const Stream> streams) {
      for (const Stream& stream : streams) {
        for (const Instruction& step : stream) {
          (counts_groups(step.op) ? groups : microbatches).add(step.index);
        }
      }
      if (groups.size() == 0) groups = {0, 0};
    }
    Range microbatches, groups;
  };

  std::size_t message_of(int receiving_stage, Payload payload, std::int64_t k) const {
    const auto edge =
        static_cast<std::size_t>(2 * receiving_stage) + (payload == Payload::gradient ? 1 : 0);
    return edge * ranges_.microbatches.size() +
           static_cast<std::size_t>(k - ranges_.microbatches.first);
  }

  /// Ranks that wait for something that is there now go on, and so do those that wait for them.
  void wake() {
    while (!ready_.empty() || !sums_.finished().empty()) {
      for (int rank : sums_.finished()) ready_.push_back(static_cast<std::size_t>(rank));
      sums_.finished().clear();
      const std::size_t rank = ready_.back();
      ready_.pop_back();
      if (ranks_[rank].waiting) work_on(rank);
    }
  }

  void work_on(std::size_t rank) {
    RankRun& run = ranks_[rank];
    run.waiting = false;
    while (run.position < run.stream.size()) {
      if (!step(rank, run, run.stream[run.position])) {
        run.waiting = true;
        return;
      }
      ++run.position;
    }
  }

  /// False where what the step waits for is not there yet.
  bool step(std::size_t rank, RankRun& run, const Instruction& now) {
    switch (now.op) {
      case Op::receive:
        if (keep_steps_) note_receive(rank, run, now);
        post(now.peer, static_cast<int>(rank), run.stage, now, run.now_s);
        return true;
      case Op::send:
        post(static_cast<int>(rank), now.peer,
             run.stage + (now.payload == Payload::activation ? 1 : -1), now, run.now_s);
        return true;
      case Op::forward:
      case Op::forward_lean:
        return compute(rank, run, now, run.stage > 0, Payload::activation);
      case Op::backward:
      case Op::backward_input:
        return compute(rank, run, now, run.stage + 1 < plan_.size(), Payload::gradient);
      case Op::recompute:
      case Op::backward_weight:
        return compute(rank, run, now, false, Payload::activation);
      case Op::reduce_start:
        if (replicated(run)) sums_.start(run.stage, run.replica, now.index, run.now_s);
        return true;
      case Op::update_wait:
        return await_sum(rank, run, now);
      case Op::update:
        return update(rank, run, now);
    }
    return false;
  }

  bool replicated(const RankRun& run) const {
    return plan_.stages[static_cast<std::size_t>(run.stage)].replicas() > 1;
  }

  /// One side of a message is posted; with the second it departs.
  void post(int from, int to, int receiving_stage, const Instruction& now, double now_s) {
    const std::size_t id = message_of(receiving_stage, now.payload, now.index);
    Message& message = messages_[id];
    if (message.posted_s < 0) {
      message.posted_s = now_s;
      return;
    }
    message.posted_s = std::max(message.posted_s, now_s);
    if (message_seconds_) {
      arrived(id, message.posted_s + message_seconds_(receiving_stage, now.payload, now.index));
      return;
    }
    const MicrobatchWork& work = now.index % plan_.microbatches < work_.larger
                                     ? sender_work(from, to, now.payload).large
                                     : sender_work(from, to, now.payload).small;
    const auto bytes = static_cast<double>(work.output_bytes);
    const Route& route = route_between(from, to, receiving_stage, now.payload);
    message.unhidden_s = (1 - route.overlap) * Transfers::undisturbed_s(route, bytes);
    const double arrival_s = transfers_.depart(route, bytes, message.posted_s, id);
    if (arrival_s != Transfers::k_under_way) arrived(id, arrival_s);
  }

  /// The rank whose stage's output travels: forwards as an activation, back as its gradient.
  const RankWork& sender_work(int from, int to, Payload payload) const {
    return work_.ranks[static_cast<std::size_t>(payload == Payload::activation ? from : to)];
  }

  const Route& route_between(int from, int to, int receiving_stage, Payload payload) {
    const bool forward = payload == Payload::activation;
    const RankRun& earlier = ranks_[static_cast<std::size_t>(forward ? from : to)];
    const RankRun& later = ranks_[static_cast<std::size_t>(forward ? to : from)];
    auto& routes =
        routes_[forward ? 0 : 1]
               [static_cast<std::size_t>(forward ? receiving_stage - 1 : receiving_stage)];
    const int width = plan_.stages[static_cast<std::size_t>(later.stage)].replicas();
    const Route*& known = routes[static_cast<std::size_t>(earlier.replica * width + later.replica)];
    if (known == nullptr) known = &transfers_.route(from, to);
    return *known;
  }

  void arrived(std::size_t id, double arrival_s) {
    Message& message = messages_[id];
    message.arrival_s = arrival_s;
    const std::size_t count = ranges_.microbatches.size();
    const auto stage = static_cast<int>(id / count / 2);
    const std::int64_t k = ranges_.microbatches.first + static_cast<std::int64_t>(id % count);
    const auto rank = static_cast<std::size_t>(plan_.owner(stage, k));
    if (keep_steps_) {
      SimulatedStep& step = result_.ranks[rank].steps[step_of_message_[id]];
      step.start_s = message.posted_s;
      step.end_s = arrival_s;
    }
    if (ranks_[rank].waiting) ready_.push_back(rank);
  }

  bool compute(std::size_t rank, RankRun& run, const Instruction& now, bool waits,
               Payload payload) {
    const double ready_s = run.now_s;
    double start_s = ready_s;
    SimulatedRank& totals = result_.ranks[rank];
    if (waits) {
      const Message& message = messages_[message_of(run.stage, payload, now.index)];
      if (message.arrival_s == k_never) return false;
      start_s = after(message.arrival_s, std::max(ready_s, message.posted_s), message.unhidden_s,
                      ready_s);
      (payload == Payload::activation ? totals.wait_activation_s : totals.wait_gradient_s) +=
          start_s - ready_s;
    }
    finish(rank, run, now, start_s);
    return true;
  }

  /// When a rank that came at `ready_s` can use what has arrived. `watched_s`: since when it waited
  /// with it under way.
  double after(double arrival_s, double watched_s, double unhidden_s, double ready_s) const {
    const double noticed_s =
        arrival_s > ready_s ? ready_s + waiting_.noticed_s(arrival_s - ready_s) : ready_s;
    const double waited_s = std::max(0.0, arrival_s - watched_s);
    return std::max(noticed_s, arrival_s) + std::max(0.0, unhidden_s - waited_s);
  }

  /// The step itself.
  void finish(std::size_t rank, RankRun& run, const Instruction& now, double start_s) {
    const double end_s = run.timeline.end_s(
        start_s, seconds_ ? seconds_(static_cast<int>(rank), now) : run.costs.seconds(now));
    result_.ranks[rank].busy_s += end_s - start_s;
    if (keep_steps_) result_.ranks[rank].steps.push_back({now, run.now_s, start_s, end_s});
    run.now_s = end_s;
  }

  bool await_sum(std::size_t rank, RankRun& run, const Instruction& now) {
    if (!replicated(run)) return true;
    const double done_s = sums_.done_s(run.stage, run.replica, now.index);
    if (done_s < 0) return false;
    const double start_s =
        after(done_s, run.now_s, sums_.unhidden_s(run.stage, run.replica, now.index), run.now_s);
    result_.ranks[rank].wait_reduction_s += start_s - run.now_s;
    if (keep_steps_) result_.ranks[rank].steps.push_back({now, run.now_s, start_s, start_s});
    run.now_s = start_s;
    return true;
  }

  bool update(std::size_t rank, RankRun& run, const Instruction& now) {
    finish(rank, run, now, run.now_s);
    double& made_s = result_.updates_s[static_cast<std::size_t>(now.index - ranges_.groups.first)];
    made_s = std::max(made_s, run.now_s);
    return true;
  }

  void note_receive(std::size_t rank, const RankRun& run, const Instruction& now) {
    auto& steps = result_.ranks[rank].steps;
    step_of_message_[message_of(run.stage, now.payload, now.index)] = steps.size();
    steps.push_back({now, run.now_s, run.now_s, run.now_s});
  }

  void check_finished() const {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const RankRun& run = ranks_[rank];
      if (run.position == run.stream.size()) continue;
      throw std::logic_error(fmt::format("the streams block: rank {} at '{}'", rank,
                                         to_string(run.stream[run.position])));
    }
  }

  const Plan& plan_;
  const Workload& work_;
  bool keep_steps_;
  const std::function<double(int, const Instruction&)>& seconds_;
  const MessageSeconds& message_seconds_;
  Waiting waiting_;
  Ranges ranges_;
  Transfers transfers_;
  ReplicaSums sums_;
  std::vector<RankRun> ranks_;
  std::vector<Message> messages_;             ///< by receiving stage, payload, microbatch
  std::vector<std::size_t> step_of_message_;  ///< where its receiver's steps have it
  /// From one stage to the next and back, by the earlier stage: its replica, then the later one's;
  /// found when needed.
  std::vector<std::vector<const Route*>> routes_[2];
  std::vector<std::size_t> ready_;  ///< ranks
  SimulatedRun result_;
};

}  // namespace

double SimulatedRun::period_s() const {
  const auto updates = static_cast<std::ptrdiff_t>(updates_s.size());
  if (updates == 0) return 0;
  if (updates == 1) return updates_s[0];
  const std::ptrdiff_t steady = updates - draining >= 2 ? updates - draining : updates;
  const auto first = static_cast<std::size_t>((steady - 1) / 2);
  const auto last = static_cast<std::size_t>(steady - 1);
  return (updates_s[last] - updates_s[first]) / static_cast<double>(last - first);
}

SimulatedRun simulate(const plan::Plan& plan, std::span<const schedule::Stream> streams,
                      const Workload& work, const Cluster& cluster,
                      const SimulatorOptions& options) {
  return replay(plan, streams, work, cluster, options, {});
}

SimulatedRun replay(const plan::Plan& plan, std::span<const schedule::Stream> streams,
                    const Workload& work, const Cluster& cluster, const SimulatorOptions& options,
                    const MessageSeconds& message_seconds) {
  if (plan.ranks() > cluster.size()) {
    throw std::logic_error(
        fmt::format("a plan for {} ranks on a cluster of {}", plan.ranks(), cluster.size()));
  }
  return Simulation(plan, streams, work, cluster, options, message_seconds).run(cluster);
}

}  // namespace dynpipe::planner
