#include "app/run_monitor.hpp"

#include <algorithm>

namespace dynpipe::app {
namespace {

/// Long enough for a figure that can be read, short enough to show what a disturbance does.
constexpr double k_memory_s = 5;

}  // namespace

std::string name_of(RunStatus status) {
  switch (status) {
    case RunStatus::running:
      return "running";
    case RunStatus::completed:
      return "completed";
    case RunStatus::failed:
      return "failed";
    case RunStatus::stopped:
      return "stopped";
  }
  return "";
}

RunMonitor::RunMonitor(RunExtent extent, const plan::Plan& plan, const base::Clock& clock)
    : extent_(extent),
      plan_(plan),
      clock_(clock),
      run_began_s_(clock.now_s()),
      samples_rate_(k_memory_s),
      update_rate_(k_memory_s),
      rank_loads_(static_cast<std::size_t>(plan.ranks()),
                  {RecentRatio(k_memory_s), RecentRatio(k_memory_s)}),
      stage_loads_(static_cast<std::size_t>(plan.size())) {}

void RunMonitor::resume(const RunProgress& progress, std::int64_t updates) {
  epochs_ = progress.epochs;
  totals_ = progress.totals;
  updates_ = updates;
}

void RunMonitor::begin_epoch(std::int64_t epoch) {
  epoch_ = epoch + 1;
  last_news_s_ = clock_.now_s();
  epoch_began_s_ = last_news_s_ - totals_.train_s;
  tell([&](RunSink& sink) { sink.on_epoch_begin(epoch_); });
}

void RunMonitor::on_group(const pipeline::GroupMetrics& metrics, std::int64_t samples,
                          double learning_rate) {
  const double now_s = clock_.now_s();
  const double interval_s = now_s - last_news_s_;
  last_news_s_ = now_s;
  intervals_s_.push_back(interval_s);
  const auto count = static_cast<double>(samples);
  samples_rate_.add(count, interval_s);
  update_rate_.add(1, interval_s);
  totals_.loss_sum += metrics.loss_sum;
  totals_.correct += metrics.correct;
  totals_.samples += count;
  totals_.train_s += interval_s;
  updates_ = metrics.group + 1;

  GroupEvent event;
  event.epoch = epoch_;
  event.update = updates_;
  event.samples = samples;
  event.loss = metrics.loss_sum / count;
  event.accuracy = metrics.correct / count;
  event.epoch_loss = totals_.loss();
  event.epoch_accuracy = totals_.accuracy();
  event.learning_rate = learning_rate;
  event.time_s = now_s - run_began_s_;
  event.samples_per_s = samples_rate_.value();
  event.eta_s = eta_s();
  event.loads = loads();
  tell([&](RunSink& sink) { sink.on_group(event); });
}

double RunMonitor::eta_s() const {
  const auto updates_left = static_cast<double>(extent_.total_updates - updates_);
  const auto evaluations_left = static_cast<double>(extent_.epochs - epoch_ + 1);
  return updates_left / std::max(update_rate_.value(), 1e-9) + evaluations_left * evaluation_s_;
}

void RunMonitor::on_times(const pipeline::TimesReport& report) {
  const pipeline::StageTimes& times = report.times;
  RecentLoad& load = rank_loads_[static_cast<std::size_t>(report.rank)];
  load.busy.add(times.busy(), times.total);
  load.waiting.add(times.waiting(), times.total);
  const StageTimesEvent event{report.rank,
                              plan_.stage_of(report.rank),
                              report.group + 1,
                              times,
                              clock_.now_s() - run_began_s_,
                              report.steps,
                              report.steps_dropped};
  tell([&](RunSink& sink) { sink.on_stage_times(event); });
}

const std::vector<StageLoad>& RunMonitor::loads() {
  for (int s = 0; s < plan_.size(); ++s) {
    StageLoad load{s, 0, 0, false};
    double known = 0;
    for (const int rank : plan_.stages[static_cast<std::size_t>(s)].ranks) {
      const RecentLoad& of_rank = rank_loads_[static_cast<std::size_t>(rank)];
      if (!of_rank.busy.known()) continue;
      load.busy += of_rank.busy.value();
      load.waiting += of_rank.waiting.value();
      known += 1;
    }
    load.known = known > 0;
    if (load.known) {
      load.busy /= known;
      load.waiting /= known;
    }
    stage_loads_[static_cast<std::size_t>(s)] = load;
  }
  return stage_loads_;
}

void RunMonitor::begin_evaluation() {
  tell([](RunSink& sink) { sink.on_evaluation_begin(); });
}

void RunMonitor::end_epoch(double loss, double accuracy) {
  const double now_s = clock_.now_s();
  evaluation_s_ = now_s - last_news_s_;
  EvaluationEvent event;
  event.result.epoch = epoch_;
  event.result.train_loss = totals_.loss();
  event.result.train_accuracy = totals_.accuracy();
  event.result.test_loss = loss;
  event.result.test_accuracy = accuracy;
  event.result.wall_s = now_s - epoch_began_s_;
  event.result.train_s = totals_.train_s;
  event.result.samples = static_cast<std::int64_t>(totals_.samples);
  event.update = updates_;
  event.cut_short = updates_ < epoch_ * extent_.groups_per_epoch;
  const std::optional<EpochResult> best = best_of(epochs_);
  event.best = !best || is_better(event.result, *best);
  last_is_best_ = event.best;
  event.time_s = now_s - run_began_s_;
  epochs_.push_back(event.result);
  totals_ = {};
  tell([&](RunSink& sink) { sink.on_evaluation(event); });
}

void RunMonitor::checkpoint(const CheckpointEvent& event) {
  checkpoints_.add(event);
  tell([&](RunSink& sink) { sink.on_checkpoint(event); });
}

void RunMonitor::notice(const std::string& text) {
  tell([&](RunSink& sink) { sink.on_notice(text); });
}

void RunMonitor::end(RunStatus status, const std::string& reason) {
  tell([&](RunSink& sink) { sink.on_end(status, reason); });
}

UpdateTimes RunMonitor::update_times() const {
  if (intervals_s_.empty()) return {};
  std::vector<double> sorted = intervals_s_;
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double share) {
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
  };
  return {at(0.5), at(0.9), static_cast<std::int64_t>(sorted.size())};
}

double RunMonitor::samples_per_s() const {
  double samples = 0;
  double seconds = 0;
  for (const EpochResult& epoch : epochs_) {
    samples += static_cast<double>(epoch.samples);
    seconds += epoch.train_s;
  }
  return samples / std::max(seconds, 1e-9);
}

}  // namespace dynpipe::app
