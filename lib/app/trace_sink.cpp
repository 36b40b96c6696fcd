#include "app/trace_sink.hpp"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

constexpr std::chrono::seconds k_interval{1};
constexpr std::size_t k_most_events = 1'000'000;

io::EventKind kind_of(pipeline::StepKind kind) {
  static_assert(static_cast<int>(pipeline::StepKind::wait_send) ==
                static_cast<int>(io::EventKind::wait_send));
  return static_cast<io::EventKind>(kind);
}

bool counts_groups(pipeline::StepKind kind) {
  return kind == pipeline::StepKind::update || kind == pipeline::StepKind::wait_sum;
}

}  // namespace

void TraceSink::Rows::clear() {
  updates.clear();
  stage_stats.clear();
  evaluations.clear();
  events.clear();
  changes.clear();
}

TraceSink::TraceSink(io::TraceFile file, int microbatches, std::vector<double> rank_began_s,
                     std::function<void(const std::string&)> warn)
    : microbatches_(microbatches),
      rank_began_s_(std::move(rank_began_s)),
      warn_(std::move(warn)),
      offset_s_(file.last_time_s()),
      events_(file.has_events()),
      file_(std::move(file)),
      thread_([this] { write_on(); }) {}

TraceSink::~TraceSink() {
  hand_over([this](Rows&) { over_ = true; });
  news_.notify_one();
  if (thread_.joinable()) thread_.join();
}

template <typename How>
void TraceSink::hand_over(How&& how) {
  const std::lock_guard lock(mutex_);
  how(waiting_);
}

void TraceSink::on_group(const GroupEvent& event) {
  hand_over([&](Rows& rows) {
    rows.updates.push_back({event.update, event.epoch, event.samples, offset_s_ + event.time_s,
                            event.loss, event.accuracy, event.learning_rate});
  });
  say_failure();
}

void TraceSink::on_stage_times(const StageTimesEvent& event) {
  const pipeline::StageTimes& t = event.times;
  io::StageStatsRow row{
      event.update,      event.rank,      event.stage,        offset_s_ + event.time_s,
      t.total,           t.forward,       t.backward,         t.update,
      t.wait_activation, t.wait_gradient, t.wait_reduction,   t.wait_send,
      t.arrivals,        t.in_time,       event.steps_dropped};
  hand_over([&](Rows& rows) {
    if (failed_) return;
    if (events_) {
      if (rows.events.size() + event.steps.size() <= k_most_events) {
        const double began_s = rank_began_s_[static_cast<std::size_t>(event.rank)] - offset_s_;
        for (const pipeline::TimedStep& step : event.steps) {
          const std::int64_t group =
              counts_groups(step.kind) ? step.index : step.index / microbatches_;
          rows.events.push_back({event.rank, event.stage,
                                 static_cast<std::uint8_t>(kind_of(step.kind)), group + 1,
                                 step.index, step.start_s - began_s, step.end_s - began_s});
        }
      } else {
        row.events_dropped += static_cast<std::int64_t>(event.steps.size());
      }
    }
    rows.stage_stats.push_back(row);
  });
}

void TraceSink::on_evaluation(const EvaluationEvent& event) {
  const EpochResult& r = event.result;
  hand_over([&](Rows& rows) {
    rows.evaluations.push_back({event.update, r.epoch, r.samples, offset_s_ + event.time_s,
                                r.wall_s, r.train_s, r.train_loss, r.train_accuracy, r.test_loss,
                                r.test_accuracy, static_cast<std::uint8_t>(event.best)});
    hurry_ = true;
  });
  news_.notify_one();
  say_failure();
}

void TraceSink::add_kappa(const Staleness& staleness, std::vector<io::GradientRow> samples) {
  hand_over([&](Rows& rows) {
    rows.changes.emplace_back([staleness, samples = std::move(samples)](io::TraceFile& file) {
      file.set_kappa(staleness.kappa, staleness.cosines, samples);
    });
  });
}

void TraceSink::on_end(RunStatus status, const std::string& reason) {
  if (!thread_.joinable()) return;
  hand_over([&](Rows& rows) {
    rows.changes.emplace_back([status, reason](io::TraceFile& file) {
      file.set_meta("status", name_of(status));
      if (!reason.empty()) file.set_meta("reason", reason);
    });
    over_ = true;
  });
  news_.notify_one();
  thread_.join();
  say_failure();
}

void TraceSink::write_on() {
  for (bool over = false; !over;) {
    {
      std::unique_lock lock(mutex_);
      news_.wait_for(lock, k_interval, [this] { return hurry_ || over_; });
      hurry_ = false;
      over = over_;
      std::swap(waiting_, writing_);
      if (failed_) writing_.clear();
    }
    try {
      write(writing_);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      if (!failed_) failure_ = error.what();
      failed_ = true;
    }
    writing_.clear();
  }
}

void TraceSink::write(const Rows& rows) {
  const auto add = [this](const auto& all) {
    for (const auto& row : all) file_.add(row);
  };
  if (rows.updates.empty() && rows.stage_stats.empty() && rows.evaluations.empty() &&
      rows.changes.empty()) {
    return;
  }
  add(rows.updates);
  add(rows.stage_stats);
  add(rows.evaluations);
  add(rows.events);
  for (const auto& change : rows.changes) change(file_);
  file_.commit();
}

void TraceSink::say_failure() {
  {
    const std::lock_guard lock(mutex_);
    if (!failed_ || std::exchange(said_, true)) return;
  }
  warn_(failure_ + "; training goes on, the trace stays as it is");
}

std::vector<io::GradientRow> gradient_rows(const std::vector<std::string>& packed,
                                           const std::vector<int>& stages) {
  std::vector<io::GradientRow> rows;
  for (std::size_t rank = 0; rank < packed.size(); ++rank) {
    for (const pipeline::LagSample& sample : unpack_lag_samples(packed[rank])) {
      for (int lag = 1; lag <= pipeline::LagSample::k_lags; ++lag) {
        const auto at = static_cast<std::size_t>(lag - 1);
        rows.push_back({sample.group + 1, stages[rank], lag, sample.products[at], sample.square,
                        sample.squares[at]});
      }
    }
  }
  return rows;
}

}  // namespace dynpipe::app
