#include "app/run_outputs.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <optional>

#include "app/metrics_file.hpp"
#include "app/progress.hpp"
#include "app/terminal.hpp"
#include "app/text_file.hpp"
#include "app/trace_header.hpp"
#include "app/weights_file.hpp"
#include "plan/plan.hpp"

namespace dynpipe::app {

RunOutputs::RunOutputs(const Setup& setup)
    : setup_(setup), monitor_(setup.extent, setup.inputs.plan, setup.report_clock) {
  const TrainOptions& o = setup_.options;
  if (!o.save_weights.empty()) require_writable(o.save_weights);
  if (!o.write_plan.empty()) {
    replace_text_file(o.write_plan, plan::to_json(setup_.inputs.plan, setup_.inputs.model));
  }
  if (!o.metrics.empty()) open_metrics();
  if (!o.trace.empty()) open_trace();
  // Last, so that no refusal of the others leaves a summary that says "running".
  if (!o.summary.empty()) open_summary();
  open_progress();
}

void RunOutputs::add(std::unique_ptr<RunSink> sink) {
  monitor_.add(*sink);
  sinks_.push_back(std::move(sink));
}

void RunOutputs::open_metrics() {
  const std::optional<ResumePoint>& resume = setup_.inputs.resume;
  add(std::make_unique<MetricsFile>(
      setup_.options.metrics, setup_.inputs.plan.size(), setup_.clock,
      [this](const std::string& text) { monitor_.notice(text); },
      resume ? std::optional(resume->facts.update) : std::nullopt));
}

void RunOutputs::open_trace() {
  const TrainInputs& inputs = setup_.inputs;
  const std::string& name = setup_.options.trace;
  require_writable(name);
  const io::TraceHeader header =
      trace_header(setup_.options, inputs, setup_.backend, setup_.places, setup_.clock_offsets);
  const std::int64_t update = inputs.resume ? inputs.resume->facts.update : 0;
  const bool goes_on = inputs.resume && std::filesystem::exists(name);
  auto file =
      goes_on ? io::TraceFile::append(name, update, header) : io::TraceFile::create(name, header);
  file.add(io::StartRow{update, file.last_time_s(), static_cast<double>(std::time(nullptr))});
  file.add(io::PlanRow{update, file.last_time_s(), plan::to_json(inputs.plan, inputs.model)});
  file.commit();
  std::vector<double> rank_began_s;
  for (const comm::ClockOffset& offset : setup_.clock_offsets) {
    rank_began_s.push_back(monitor_.began_s() - (setup_.extent.virtual_time ? 0 : offset.offset_s));
  }
  auto sink = std::make_unique<TraceSink>(
      std::move(file), inputs.plan.microbatches, std::move(rank_began_s),
      [this](const std::string& text) { monitor_.notice(text); });
  trace_ = sink.get();
  add(std::move(sink));
}

void RunOutputs::open_summary() {
  TrainResult so_far;
  if (setup_.inputs.resume) so_far.epochs = setup_.inputs.resume->progress.epochs;
  auto summary = std::make_unique<SummaryFile>(
      setup_.options.summary,
      [this](const TrainResult& result) {
        return summary_json(setup_.options, setup_.inputs, result, setup_.backend);
      },
      [this](const std::string& text) { monitor_.notice(text); }, std::move(so_far));
  summary_ = summary.get();
  add(std::move(summary));
}

void RunOutputs::open_progress() {
  const TrainOptions& o = setup_.options;
  const std::optional<Terminal> terminal = Terminal::of_stdout();
  const bool live =
      o.progress == ProgressStyle::live || (o.progress == ProgressStyle::automatic && terminal);
  if (live) {
    add(std::make_unique<LiveProgress>(setup_.extent, terminal.value_or(Terminal()),
                                       charset_of_locale(), setup_.clock, stdout));
  } else {
    add(std::make_unique<LogProgress>(setup_.extent, o.log_every, stdout));
  }
}

void RunOutputs::complete(const TrainResult& result, const std::vector<std::string>& comparisons) {
  if (trace_ != nullptr && result.staleness.comparisons > 0) {
    std::vector<int> stages;
    for (const RankResult& rank : result.ranks) stages.push_back(rank.stage);
    trace_->add_kappa(result.staleness, gradient_rows(comparisons, stages));
  }
  monitor_.end(RunStatus::completed);
  fmt::print("{}", describe_result(result, setup_.inputs.plan, setup_.extent.virtual_time));
  if (summary_ != nullptr) summary_->complete(result);
  const TrainOptions& o = setup_.options;
  const char* before = "\n";
  for (const auto& [what, file] :
       {std::pair{"summary", o.summary}, {"trace", o.trace}, {"weights", o.save_weights}}) {
    if (file.empty()) continue;
    fmt::print("{}{} written to {}\n", before, what, file);
    before = "";
  }
  std::fflush(stdout);
}

}  // namespace dynpipe::app
