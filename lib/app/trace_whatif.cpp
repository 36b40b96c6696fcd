#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>

#include "app/text_file.hpp"
#include "app/trace_command.hpp"
#include "app/train_inputs.hpp"
#include "base/counted.hpp"
#include "base/errors.hpp"
#include "planner/replay.hpp"
#include "planner/simulator.hpp"
#include "planner/workload.hpp"
#include "schedule/schedule.hpp"

namespace dynpipe::app {
namespace {

using base::InputError;
using io::EventKind;
using schedule::Instruction;
using schedule::Op;

/// What disturbs a stage makes some of its steps longer, not all.
constexpr double k_undisturbed_quantile = 0.1;

EventKind kind_of(Op op) {
  switch (op) {
    case Op::recompute:
      return EventKind::recompute;
    case Op::backward:
      return EventKind::backward;
    case Op::backward_input:
      return EventKind::backward_input;
    case Op::backward_weight:
      return EventKind::backward_weight;
    case Op::update:
      return EventKind::update;
    default:
      return EventKind::forward;
  }
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

/// A segment of training as it was recorded.
struct Recorded {
  std::int64_t first = 0, last = 0;  ///< updates
  double measured_s = 0;             ///< from its first event to its last
  /// What steps took, with all that was between them but waits: by rank, kind and index.
  std::map<std::tuple<int, EventKind, std::int64_t>, double> steps_s;
};

/// Of the receiving stage, whether it is an activation, and the microbatch.
using MessageKey = std::tuple<int, bool, std::int64_t>;

struct Delays {
  double messages_s = 0, sums_s = 0;  ///< means
  std::int64_t messages = 0, sums = 0;
  std::map<MessageKey, double> each_s;  ///< message
};

/// Adds the events of one rank, in order.
void add_rank(const std::vector<const io::EventRow*>& events, double segment_began_s,
              Recorded& recorded) {
  double since_s = segment_began_s;
  bool first = true;
  for (const io::EventRow* event : events) {
    const auto kind = static_cast<EventKind>(event->kind);
    if (kind == EventKind::wait_activation || kind == EventKind::wait_gradient ||
        kind == EventKind::wait_sum) {
      // The simulator finds out how long it waits.
      since_s += event->end_s - event->start_s;
      if (first) since_s = event->end_s;
    } else if (kind != EventKind::wait_send) {
      recorded.steps_s[{event->rank, kind, event->index}] = event->end_s - since_s;
      since_s = event->end_s;
    }
    first = false;
  }
}

/// Segments all of whose events were kept. `plan` is the last one, under which they were made.
std::vector<Recorded> recorded_segments(const TraceRun& run) {
  const io::Trace& trace = run.trace;
  const std::int64_t ruled_from = trace.plans.back().update + 1;
  std::vector<Recorded> segments;
  for (const auto& [first, last] : epochs_of(trace)) {
    if (first < ruled_from) continue;
    std::vector<std::vector<const io::EventRow*>> by_rank(trace.ranks.size());
    double began_s = std::numeric_limits<double>::infinity();
    double ended_s = -began_s;
    for (const io::EventRow& event : trace.events) {
      if (event.update < first || event.update > last || event.rank >= run.ranks()) continue;
      by_rank[static_cast<std::size_t>(event.rank)].push_back(&event);
      began_s = std::min(began_s, event.start_s);
      ended_s = std::max(ended_s, event.end_s);
    }
    Recorded recorded{first, last, ended_s - began_s, {}};
    bool whole = true;
    for (auto& events : by_rank) {
      std::stable_sort(events.begin(), events.end(),
                       [](const auto* a, const auto* b) { return a->start_s < b->start_s; });
      const auto updates = std::count_if(events.begin(), events.end(), [](const auto* event) {
        return static_cast<EventKind>(event->kind) == EventKind::update;
      });
      whole &= updates == last - first + 1;
      add_rank(events, began_s, recorded);
    }
    if (whole) segments.push_back(std::move(recorded));
  }
  return segments;
}

/// Messages that nobody waited for were there when they were used, and took no longer than others.
void add_unnoticed(const io::Trace& trace, const MessagesMade& messages, Delays& delays) {
  for (io::EventRow event : trace.events) {
    const auto kind = static_cast<EventKind>(event.kind);
    const bool activation = kind == EventKind::forward;
    if (!activation && kind != EventKind::backward && kind != EventKind::backward_input) continue;
    event.kind = static_cast<std::uint8_t>(activation ? EventKind::wait_activation
                                                      : EventKind::wait_gradient);
    const auto made_s = messages.made_s(event);
    if (!made_s) continue;
    const double most_s = std::max(0.0, event.start_s - *made_s);
    delays.each_s.try_emplace({event.stage, activation, event.index},
                              std::min(most_s, delays.messages_s));
  }
}

/// How long messages took that somebody waited for.
Delays delays_of(const io::Trace& trace) {
  Delays delays;
  const MessagesMade messages(trace);
  std::map<std::pair<int, std::int64_t>, double> last_backward_s;  // of stage and update
  for (const io::EventRow& event : trace.events) {
    const auto kind = static_cast<EventKind>(event.kind);
    if (kind == EventKind::backward || kind == EventKind::backward_weight) {
      double& end_s = last_backward_s[{event.stage, event.update}];
      end_s = std::max(end_s, event.end_s);
    }
  }
  for (const io::EventRow& event : trace.events) {
    if (const auto made_s = messages.made_s(event)) {
      const double took_s = std::max(0.0, event.end_s - *made_s);
      delays.messages_s += took_s;
      delays.each_s[{event.stage, static_cast<EventKind>(event.kind) == EventKind::wait_activation,
                     event.index}] = took_s;
      ++delays.messages;
    } else if (static_cast<EventKind>(event.kind) == EventKind::wait_sum) {
      const auto found = last_backward_s.find({event.stage, event.update});
      if (found == last_backward_s.end()) continue;
      delays.sums_s += std::max(0.0, event.end_s - found->second);
      ++delays.sums;
    }
  }
  if (delays.messages > 0) delays.messages_s /= static_cast<double>(delays.messages);
  if (delays.sums > 0) delays.sums_s /= static_cast<double>(delays.sums);
  add_unnoticed(trace, messages, delays);
  return delays;
}

/// Every two ranks joined by a link of their own: messages of neighbouring stages take what they
/// took, and so do the two rounds of a sum.
planner::Cluster cluster_of(const plan::Plan& plan, const Delays& delays) {
  planner::Cluster cluster;
  cluster.name = "trace";
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    cluster.ranks.push_back({fmt::format("rank{}", rank)});
  }
  for (int a = 0; a < plan.ranks(); ++a) {
    for (int b = a + 1; b < plan.ranks(); ++b) {
      const bool replicas = plan.stage_of(a) == plan.stage_of(b);
      const double delay_s = replicas ? delays.sums_s / 2 : delays.messages_s;
      cluster.links.push_back(
          {fmt::format("link{}-{}", a, b), a, b, delay_s, std::numeric_limits<double>::infinity()});
    }
  }
  return cluster;
}

/// Mean time of a stage's steps, a microbatch.
struct MeanSteps {
  double forward_s = 0, backward_s = 0, update_s = 0;
};

/// Of the rows of a trace without events: what is neither work nor waiting goes with the work.
std::vector<MeanSteps> mean_steps(const TraceRun& run, const std::vector<Recorded>& segments) {
  const plan::Plan& plan = run.plan;
  std::vector<MeanSteps> means(static_cast<std::size_t>(plan.size()));
  if (!segments.empty()) {
    std::vector<std::array<double, 3>> counts(means.size());
    for (const Recorded& segment : segments) {
      for (const auto& [step, seconds] : segment.steps_s) {
        const auto& [rank, kind, index] = step;
        const auto s = static_cast<std::size_t>(plan.stage_of(rank));
        if (kind == EventKind::update) {
          means[s].update_s += seconds;
          counts[s][2] += 1;
        } else if (kind == EventKind::forward || kind == EventKind::recompute) {
          means[s].forward_s += seconds;
          counts[s][0] += 1;
        } else {
          means[s].backward_s += seconds;
          counts[s][1] += kind == EventKind::backward_weight ? 0 : 1;
        }
      }
    }
    for (std::size_t s = 0; s < means.size(); ++s) {
      means[s].forward_s /= std::max(counts[s][0], 1.0);
      means[s].backward_s /= std::max(counts[s][1], 1.0);
      means[s].update_s /= std::max(counts[s][2], 1.0);
    }
    return means;
  }
  for (const StageAccount& of : account_of(run.trace)) {
    if (of.stage >= plan.size() || of.updates == 0) continue;
    const plan::Stage& stage = plan.stages[static_cast<std::size_t>(of.stage)];
    const double updates = static_cast<double>(of.updates);
    const double microbatches = updates * plan.microbatches;
    const double work_s = of.forward_s + of.backward_s;
    const double more = work_s > 0 ? 1 + std::max(0.0, of.rest_s()) / work_s : 1;
    means[static_cast<std::size_t>(of.stage)] = {
        more * of.forward_s / microbatches / (stage.recompute ? 2 : 1),
        more * of.backward_s / microbatches, of.update_s / updates / stage.replicas()};
  }
  return means;
}

/// A profile of layers: a stage's means dealt out to its layers by their share in it.
model::Profile layer_profile(const TraceRun& run, const std::vector<MeanSteps>& means,
                             const WhatIf& asked) {
  const plan::Plan& plan = run.plan;
  const std::int64_t samples = std::max<std::int64_t>(1, run.trace.batch / plan.microbatches);
  model::Profile profile = planner::profile_by_flops(run.model, 1e9);
  if (!asked.profile.empty()) {
    profile = model::parse_profile(read_text_file(asked.profile), asked.profile, run.model);
  }
  model::Profile result = profile;
  result.samples = {samples};
  result.links.clear();
  result.slowdowns.clear();
  for (int s = 0; s < plan.size(); ++s) {
    const plan::Stage& stage = plan.stages[static_cast<std::size_t>(s)];
    model::LayerTimes sum;
    double parameters = 0;
    for (int l = stage.first; l <= stage.last; ++l) {
      const model::LayerTimes of = profile.times(l, samples);
      sum.forward_s += of.forward_s;
      sum.backward_input_s += of.backward_input_s + of.backward_weight_s;
      parameters +=
          static_cast<double>(profile.layers[static_cast<std::size_t>(l)].parameter_bytes);
    }
    const MeanSteps& mean = means[static_cast<std::size_t>(s)];
    const double layers = stage.last - stage.first + 1;
    for (int l = stage.first; l <= stage.last; ++l) {
      model::LayerProfile& of = result.layers[static_cast<std::size_t>(l)];
      const model::LayerTimes times = profile.times(l, samples);
      const auto dealt = [&](double whole_s, double part, double all) {
        return all > 0 ? whole_s * part / all : whole_s / layers;
      };
      of.times = {{dealt(mean.forward_s, times.forward_s, sum.forward_s),
                   dealt(mean.backward_s, times.backward_input_s, sum.backward_input_s),
                   sum.backward_input_s > 0
                       ? dealt(mean.backward_s, times.backward_weight_s, sum.backward_input_s)
                       : 0}};
      of.update_s = dealt(mean.update_s, static_cast<double>(of.parameter_bytes), parameters);
    }
  }
  return result;
}

double simulated_update_s(const plan::Plan& plan, const model::Profile& profile,
                          const Delays& delays, std::int64_t batch, std::int64_t updates) {
  const planner::Workload work = planner::workload_of(profile, plan, batch);
  const auto streams = schedule::training_streams(plan, {0, updates});
  const planner::SimulatedRun run =
      planner::simulate(plan, streams, work, cluster_of(plan, delays));
  return run.end_s / static_cast<double>(updates);
}

/// The durations that a stage's steps have where nothing disturbs them, by kind and by rank; empty
/// for the other stages.
std::map<std::pair<int, EventKind>, double> undisturbed_steps(const plan::Plan& plan,
                                                              const std::vector<Recorded>& segments,
                                                              std::optional<int> stage) {
  std::map<std::pair<int, EventKind>, std::vector<double>> all;
  std::map<std::pair<int, EventKind>, double> result;
  if (!stage) return result;
  for (const Recorded& segment : segments) {
    for (const auto& [step, seconds] : segment.steps_s) {
      const auto& [rank, kind, index] = step;
      if (plan.stage_of(rank) == *stage) all[{rank, kind}].push_back(seconds);
    }
  }
  for (auto& [of, seconds] : all) result[of] = quantile(seconds, k_undisturbed_quantile);
  return result;
}

/// Seconds that all segments take, with what they recorded but for `instead`.
double replay(const plan::Plan& plan, const std::vector<Recorded>& segments, const Delays& delays,
              const std::map<std::pair<int, EventKind>, double>& instead) {
  planner::Workload work;
  work.ranks.resize(static_cast<std::size_t>(plan.ranks()));
  for (planner::RankWork& rank : work.ranks) rank.gradient_bytes = 1;
  const planner::Cluster cluster = cluster_of(plan, delays);
  double seconds = 0;
  for (const Recorded& segment : segments) {
    planner::SimulatorOptions options;
    options.seconds = [&](int rank, const Instruction& step) {
      const auto other = instead.find({rank, kind_of(step.op)});
      const auto found = segment.steps_s.find({rank, kind_of(step.op), step.index});
      const double own_s = found == segment.steps_s.end() ? 0 : found->second;
      return other == instead.end() ? own_s : std::min(own_s, other->second);
    };
    const auto streams = schedule::training_streams(plan, {segment.first - 1, segment.last});
    const auto message_seconds = [&](int stage, schedule::Payload payload, std::int64_t k) {
      const auto found = delays.each_s.find({stage, payload == schedule::Payload::activation, k});
      return found == delays.each_s.end() ? delays.messages_s : found->second;
    };
    seconds += planner::replay(plan, streams, work, cluster, options, message_seconds).end_s;
  }
  return seconds;
}

}  // namespace

WhatIfResult what_if(const TraceRun& run, const WhatIf& asked) {
  const plan::Plan& plan = run.plan;
  if (asked.undisturbed && (*asked.undisturbed < 0 || *asked.undisturbed >= plan.size())) {
    throw InputError("", "--undisturbed",
                     fmt::format("is {}, but there are {}", *asked.undisturbed,
                                 base::counted(plan.size(), "stage")));
  }
  const std::vector<Recorded> segments = recorded_segments(run);
  if (segments.empty() && asked.undisturbed) {
    throw InputError(run.trace.file, "/events",
                     "has no whole epoch, which --undisturbed needs: train with --trace-events");
  }
  const Delays delays = delays_of(run.trace);
  const std::vector<double> intervals_s = update_intervals_s(run.trace);
  if (intervals_s.empty()) throw InputError(run.trace.file, "/updates", "are too few");

  WhatIfResult result;
  const std::vector<MeanSteps> means = mean_steps(run, segments);
  const model::Profile profile = layer_profile(run, means, asked);
  if (segments.empty()) {
    for (const double interval_s : intervals_s) result.measured_s += interval_s;
    result.updates = static_cast<std::int64_t>(intervals_s.size());
    result.measured_s /= static_cast<double>(result.updates);
    result.replayed_s = simulated_update_s(plan, profile, delays, run.trace.batch, result.updates);
  } else {
    for (const Recorded& segment : segments) {
      result.measured_s += segment.measured_s;
      result.updates += segment.last - segment.first + 1;
    }
    result.measured_s /= static_cast<double>(result.updates);
    result.replayed_s = replay(plan, segments, delays, {}) / static_cast<double>(result.updates);
  }
  const char* const kind = run.is_virtual() ? "virtual ms" : "ms";
  result.text = fmt::format(
      "{}, {} of {}\nmeasured             {:>10.4g} {} an update\nreplayed             {:>10.4g} "
      "{} "
      "an update, {:+.2f} %\n",
      segments.empty() ? "Mean times of stages (no whole epoch of events)" : "Steps as recorded",
      base::counted(result.updates, "update"), run.trace.file, 1e3 * result.measured_s, kind,
      1e3 * result.replayed_s, kind, 100 * (result.replayed_s / result.measured_s - 1));
  result.predicted_s = result.replayed_s;
  const auto add = [&](const std::string& what, double predicted_s) {
    result.predicted_s = predicted_s;
    result.text +=
        fmt::format("{:<20} {:>10.4g} {} an update, {:+.2f} % ({:.3f} times as fast)\n", what,
                    1e3 * predicted_s, kind, 100 * (predicted_s / result.replayed_s - 1),
                    result.replayed_s / predicted_s);
  };
  if (asked.undisturbed) {
    add(fmt::format("stage {} undisturbed", *asked.undisturbed),
        replay(plan, segments, delays, undisturbed_steps(plan, segments, asked.undisturbed)) /
            static_cast<double>(result.updates));
    result.text += fmt::format("(undisturbed: no step takes longer than the shortest {:.0f} %)\n",
                               100 * k_undisturbed_quantile);
  }
  if (!asked.plan.empty()) {
    const plan::Plan other =
        plan::parse_plan(read_text_file(asked.plan), asked.plan, run.model, run.ranks());
    check_streams(other, asked.plan);
    const std::int64_t updates = segments.empty()
                                     ? std::min<std::int64_t>(result.updates, 200)
                                     : segments.front().last - segments.front().first + 1;
    const double own_s = simulated_update_s(plan, profile, delays, run.trace.batch, updates);
    const double other_s = simulated_update_s(other, profile, delays, run.trace.batch, updates);
    // What the means leave out they leave out of both.
    add("other plan", result.replayed_s * other_s / own_s);
    result.text += fmt::format(
        "(a stage's time is dealt out to its layers by {}; a message takes {:.3g} ms)\n",
        asked.profile.empty() ? "FLOPs" : asked.profile, 1e3 * delays.messages_s);
  }
  return result;
}

}  // namespace dynpipe::app
