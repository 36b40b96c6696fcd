#include "app/trace_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/errors.hpp"
#include "nn/layer.hpp"

namespace dynpipe::app {
namespace {

using io::EventKind;

EventKind kind_of(const io::EventRow& event) {
  return static_cast<EventKind>(event.kind);
}

bool computes(EventKind kind) {
  return kind <= EventKind::update;
}

}  // namespace

TraceRun read_trace_run(const std::string& file) {
  TraceRun run;
  run.trace = io::read_trace(file);
  const io::Trace& trace = run.trace;
  const auto object = [&](const char* name) { return fmt::format("{}: {}", file, name); };
  run.model = model::parse_model(trace.model, object("/meta/model"), nn::layer_types());
  if (trace.ranks.empty()) throw base::InputError(file, "/meta/ranks", "is empty");
  if (trace.plans.empty()) throw base::InputError(file, "/plans", "is empty");
  run.plan = plan::parse_plan(trace.plans.back().plan, object("/plans"), run.model, run.ranks());
  const auto check_places = [&](const auto& rows, const char* name) {
    for (const auto& row : rows) {
      const bool known =
          row.rank >= 0 && row.rank < run.ranks() && row.stage >= 0 && row.stage < run.ranks();
      if (!known) {
        throw base::InputError(file, name,
                               fmt::format("tells of rank {}, stage {}", row.rank, row.stage));
      }
    }
  };
  check_places(trace.stage_stats, "/stage_stats");
  check_places(trace.events, "/events");
  return run;
}

std::uint64_t MessagesMade::key(int stage, bool activation, std::int64_t microbatch) {
  return (static_cast<std::uint64_t>(microbatch) << 17U) |
         (static_cast<std::uint64_t>(stage) << 1U) | (activation ? 1U : 0U);
}

MessagesMade::MessagesMade(const io::Trace& trace) {
  for (const io::EventRow& event : trace.events) {
    const EventKind kind = kind_of(event);
    const bool forward = kind == EventKind::forward;
    if (!forward && kind != EventKind::backward && kind != EventKind::backward_input) continue;
    ends_s_[key(event.stage, forward, event.index)] = event.end_s;
  }
}

std::optional<double> MessagesMade::made_s(const io::EventRow& wait) const {
  const EventKind kind = kind_of(wait);
  const bool activation = kind == EventKind::wait_activation;
  if (!activation && kind != EventKind::wait_gradient) return std::nullopt;
  const auto found = ends_s_.find(key(wait.stage + (activation ? -1 : 1), activation, wait.index));
  return found == ends_s_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<StageAccount> account_of(const io::Trace& trace) {
  std::map<int, StageAccount> stages;
  std::map<std::pair<int, int>, std::int64_t> updates;  // of stage and rank
  std::map<int, std::int64_t> last;                     // by rank
  for (const io::StageStatsRow& row : trace.stage_stats) {
    StageAccount& of = stages[row.stage];
    of.stage = row.stage;
    of.total_s += row.total_s;
    of.forward_s += row.forward_s;
    of.backward_s += row.backward_s;
    of.update_s += row.update_s;
    of.wait_activation_s += row.wait_activation_s;
    of.wait_gradient_s += row.wait_gradient_s;
    of.wait_sum_s += row.wait_sum_s;
    of.wait_send_s += row.wait_send_s;
    updates[{row.stage, row.rank}] += row.update - last[row.rank];
    last[row.rank] = row.update;
  }
  for (const auto& [place, count] : updates) {
    StageAccount& of = stages[place.first];
    of.ranks += 1;
    of.updates = std::max(of.updates, count);
  }
  if (trace.has_events) {
    for (auto& [stage, of] : stages) of.transfer_s = 0;
    const MessagesMade messages(trace);
    for (const io::EventRow& event : trace.events) {
      const auto made_s = messages.made_s(event);
      const auto of = stages.find(event.stage);
      if (!made_s || of == stages.end()) continue;
      *of->second.transfer_s += std::max(0.0, event.end_s - std::max(*made_s, event.start_s));
    }
  }
  std::vector<StageAccount> accounts;
  for (const auto& [stage, of] : stages) accounts.push_back(of);
  return accounts;
}

std::vector<double> seconds_by_computing_ranks(const io::Trace& trace) {
  if (trace.events.empty()) return {};
  std::map<std::int64_t, std::int64_t> epoch_of;
  for (const io::UpdateRow& row : trace.updates) epoch_of[row.update] = row.epoch;
  struct Change {
    std::int64_t epoch;
    double time_s;
    int by;  ///< 1: begins, -1: ends
  };
  std::vector<Change> changes;
  for (const io::EventRow& event : trace.events) {
    if (!computes(kind_of(event))) continue;
    const auto epoch = epoch_of.find(event.update);
    if (epoch == epoch_of.end()) continue;
    changes.push_back({epoch->second, event.start_s, 1});
    changes.push_back({epoch->second, event.end_s, -1});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tie(a.epoch, a.time_s, a.by) < std::tie(b.epoch, b.time_s, b.by);
  });
  std::vector<double> seconds(trace.ranks.size() + 1, 0);
  int computing = 0;
  for (std::size_t i = 0; i + 1 < changes.size(); ++i) {
    computing += changes[i].by;
    if (changes[i + 1].epoch != changes[i].epoch) continue;
    const auto at = std::clamp<std::size_t>(static_cast<std::size_t>(std::max(computing, 0)), 0,
                                            seconds.size() - 1);
    seconds[at] += changes[i + 1].time_s - changes[i].time_s;
  }
  return seconds;
}

std::vector<double> update_intervals_s(const io::Trace& trace) {
  std::vector<double> intervals_s;
  for (std::size_t i = 1; i < trace.updates.size(); ++i) {
    const io::UpdateRow& row = trace.updates[i];
    const io::UpdateRow& before = trace.updates[i - 1];
    if (row.epoch == before.epoch && row.update == before.update + 1) {
      intervals_s.push_back(row.time_s - before.time_s);
    }
  }
  return intervals_s;
}

std::vector<std::pair<std::int64_t, std::int64_t>> epochs_of(const io::Trace& trace) {
  std::vector<std::pair<std::int64_t, std::int64_t>> epochs;
  std::int64_t epoch = 0;
  for (const io::UpdateRow& row : trace.updates) {
    if (epochs.empty() || row.epoch != epoch || row.update != epochs.back().second + 1) {
      epochs.emplace_back(row.update, row.update);
      epoch = row.epoch;
    }
    epochs.back().second = row.update;
  }
  return epochs;
}

}  // namespace dynpipe::app
