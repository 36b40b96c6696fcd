#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/trace_command.hpp"
#include "base/counted.hpp"

namespace dynpipe::app {
namespace {

using base::counted;

constexpr std::size_t k_bar = 30;
constexpr std::size_t k_slices = 10;

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double training_s(const io::Trace& trace) {
  double seconds = 0;
  for (const auto& of : update_intervals_s(trace)) seconds += of;
  return seconds;
}

std::string head(const TraceRun& run) {
  const io::Trace& trace = run.trace;
  const char* const kind = run.is_virtual() ? "virtual " : "";
  const std::vector<double> intervals_s = update_intervals_s(trace);
  const double update_s = share(training_s(trace), static_cast<double>(intervals_s.size()));
  const double last_s = trace.updates.empty() ? 0 : trace.updates.back().time_s;
  std::string text =
      fmt::format("{}: {}, {}, {}, {}\n", trace.file, run.model.name,
                  counted(run.plan.size(), "stage"), counted(run.ranks(), "rank"),
                  trace.status == "running" ? "running, or killed while it did" : trace.status);
  text +=
      fmt::format("{} in {:.4g} {}s",
                  counted(static_cast<std::int64_t>(trace.updates.size()), "update"), last_s, kind);
  if (update_s > 0) {
    text += fmt::format("; {:.4g} {}ms an update (median {:.4g}), {:.0f} samples/{}s",
                        1e3 * update_s, kind, 1e3 * median(intervals_s),
                        static_cast<double>(trace.batch) / update_s, kind);
  }
  if (trace.plans.size() > 1) text += fmt::format("; {} plans", trace.plans.size());
  text += "\n";
  if (!trace.evaluations.empty()) {
    const io::EvaluationRow& last = trace.evaluations.back();
    text += fmt::format("test accuracy {:.2f} % after {}\n", 100 * last.test_accuracy,
                        fmt::format("epoch {}", last.epoch));
  }
  return text;
}

std::string stages_text(const TraceRun& run, const std::vector<StageAccount>& stages,
                        Charset charset) {
  std::string text =
      "\n                                          ----- waits for -----\n"
      "stage  ranks  forward  backward  update  input  grad   sum  send  rest  transfer  bubble  "
      "ms an update\n";
  for (const StageAccount& of : stages) {
    const auto percent = [&](double seconds) { return 100 * share(seconds, of.total_s); };
    const double messages_s = of.wait_activation_s + of.wait_gradient_s;
    const double transfer_s = of.transfer_s.value_or(0) + of.wait_send_s;
    text += fmt::format(
        "{:>5}  {:>5}  {:>5.1f} %  {:>6.1f} %  {:>4.1f} %  {:>3.0f} % {:>3.0f} % {:>3.0f} % "
        "{:>3.0f} % {:>3.0f} %  {:>8}  {:>6}  {:>12.4g}\n",
        of.stage, of.ranks, percent(of.forward_s), percent(of.backward_s), percent(of.update_s),
        percent(of.wait_activation_s), percent(of.wait_gradient_s), percent(of.wait_sum_s),
        percent(of.wait_send_s), percent(of.rest_s()),
        of.transfer_s ? fmt::format("{:.1f} %", percent(transfer_s)) : "-",
        of.transfer_s ? fmt::format("{:.1f} %", percent(messages_s - *of.transfer_s)) : "-",
        1e3 * share(of.busy_s(), static_cast<double>(of.updates) * of.ranks));
  }
  text +=
      run.trace.has_events
          ? "(shares of training time; transfer: what was waited for had been made and was on its "
            "way; bubble: it had not)\n"
          : "(shares of training time; transfer and bubble are told apart by --trace-events)\n";
  text += "\n";
  for (const StageAccount& of : stages) {
    const double busy = share(of.busy_s(), of.total_s);
    text += fmt::format("stage {:<3} {} {:>3.0f} % busy\n", of.stage, bar(busy, k_bar, charset),
                        100 * busy);
  }
  return text;
}

std::string slowest_text(const std::vector<StageAccount>& stages) {
  const auto work = [](const StageAccount& of) {
    return share(of.busy_s(), static_cast<double>(of.updates) * of.ranks);
  };
  const auto slowest = std::max_element(
      stages.begin(), stages.end(),
      [&](const StageAccount& a, const StageAccount& b) { return work(a) < work(b); });
  if (stages.size() < 2) return "";
  double others = 0;
  for (const StageAccount& of : stages) {
    if (&of != &*slowest) others += work(of) / static_cast<double>(stages.size() - 1);
  }
  return fmt::format("slowest: stage {}, {:.4g} ms of work an update, {:.2f} times the others'\n",
                     slowest->stage, 1e3 * work(*slowest), share(work(*slowest), others));
}

/// Samples a second, by slices of the run's updates.
std::string speed_text(const TraceRun& run, Charset charset) {
  const auto& updates = run.trace.updates;
  if (updates.size() < 2 * k_slices) return "";
  struct Slice {
    double samples = 0, seconds = 0;
    std::int64_t first = 0, last = 0;
  };
  std::vector<Slice> slices(k_slices);
  for (std::size_t i = 1; i < updates.size(); ++i) {
    if (updates[i].epoch != updates[i - 1].epoch) continue;
    Slice& slice = slices[i * k_slices / updates.size()];
    slice.samples += static_cast<double>(updates[i].samples);
    slice.seconds += updates[i].time_s - updates[i - 1].time_s;
    if (slice.first == 0) slice.first = updates[i].update;
    slice.last = updates[i].update;
  }
  double most = 0;
  for (const Slice& slice : slices) most = std::max(most, share(slice.samples, slice.seconds));
  std::string text = "\nupdates          samples/s\n";
  for (const Slice& slice : slices) {
    const double speed = share(slice.samples, slice.seconds);
    text += fmt::format("{:>6} - {:<6} {:>9.0f}  {}\n", slice.first, slice.last, speed,
                        bar(share(speed, most), k_bar, charset));
  }
  return text;
}

std::string overlap_text(const TraceRun& run, Charset charset) {
  const std::vector<double> seconds = seconds_by_computing_ranks(run.trace);
  double total = 0;
  double work = 0;
  for (std::size_t n = 0; n < seconds.size(); ++n) {
    total += seconds[n];
    work += static_cast<double>(n) * seconds[n];
  }
  if (total == 0) return "";
  std::string text = fmt::format("\nranks that compute at once: {:.2f} of {} on the mean\n",
                                 work / total, run.ranks());
  for (std::size_t n = 0; n < seconds.size(); ++n) {
    if (seconds.size() > 17 && seconds[n] < 0.005 * total) continue;
    text += fmt::format("{:>5}  {} {:>3.0f} %\n", n, bar(seconds[n] / total, k_bar, charset),
                        100 * seconds[n] / total);
  }
  return text;
}

std::string dropped_text(const io::Trace& trace) {
  std::int64_t dropped = 0;
  for (const io::StageStatsRow& row : trace.stage_stats) dropped += row.events_dropped;
  return dropped == 0
             ? ""
             : fmt::format("{} had no room and were left out\n", counted(dropped, "event"));
}

/// A row of a comparison.
std::string difference(const std::string& what, double a, double b, int digits) {
  const std::string change = a != 0 && std::isfinite(a) && std::isfinite(b)
                                 ? fmt::format("{:+.1f} %", 100 * (b - a) / a)
                                 : "-";
  return fmt::format("{:<34}  {:>12.{}f}  {:>12.{}f}  {:>9}\n", what, a, digits, b, digits, change);
}

}  // namespace

std::string describe_trace(const TraceRun& run, Charset charset) {
  const std::vector<StageAccount> stages = account_of(run.trace);
  std::string text = head(run);
  if (stages.empty()) return text + "no update has been reported yet\n";
  text += stages_text(run, stages, charset) + slowest_text(stages);
  return text + speed_text(run, charset) + overlap_text(run, charset) + dropped_text(run.trace);
}

std::string compare_traces(const TraceRun& first, const TraceRun& second) {
  std::string text = fmt::format("A: {}, {}, {}\nB: {}, {}, {}\n\n{:<34}  {:>12}  {:>12}  {:>9}\n",
                                 first.trace.file, first.model.name, counted(first.ranks(), "rank"),
                                 second.trace.file, second.model.name,
                                 counted(second.ranks(), "rank"), "", "A", "B", "B to A");
  const auto update_s = [](const TraceRun& run) {
    return share(training_s(run.trace), static_cast<double>(update_intervals_s(run.trace).size()));
  };
  const auto speed = [&](const TraceRun& run) {
    return share(static_cast<double>(run.trace.batch), update_s(run));
  };
  text += difference("updates", static_cast<double>(first.trace.updates.size()),
                     static_cast<double>(second.trace.updates.size()), 0);
  text += difference("ms an update", 1e3 * update_s(first), 1e3 * update_s(second), 3);
  text += difference("ms an update, median", 1e3 * median(update_intervals_s(first.trace)),
                     1e3 * median(update_intervals_s(second.trace)), 3);
  text += difference("samples a second", speed(first), speed(second), 1);
  if (!first.trace.evaluations.empty() && !second.trace.evaluations.empty()) {
    const io::EvaluationRow& a = first.trace.evaluations.back();
    const io::EvaluationRow& b = second.trace.evaluations.back();
    text += difference("time of the last evaluation, s", a.time_s, b.time_s, 2);
    text += difference("test loss", a.test_loss, b.test_loss, 4);
    text += difference("test accuracy, %", 100 * a.test_accuracy, 100 * b.test_accuracy, 2);
  }
  const auto a = account_of(first.trace);
  const auto b = account_of(second.trace);
  for (std::size_t s = 0; s < std::min(a.size(), b.size()); ++s) {
    const auto row = [&](const char* what, auto of) {
      const auto each = [&](const StageAccount& stage) {
        return 1e3 * share(of(stage), static_cast<double>(stage.updates) * stage.ranks);
      };
      text +=
          difference(fmt::format("stage {}: {}, ms an update", s, what), each(a[s]), each(b[s]), 3);
    };
    row("forward", [](const StageAccount& of) { return of.forward_s; });
    row("backward", [](const StageAccount& of) { return of.backward_s; });
    row("update", [](const StageAccount& of) { return of.update_s; });
    row("waiting", [](const StageAccount& of) { return of.waiting_s(); });
    row("rest", [](const StageAccount& of) { return of.rest_s(); });
  }
  if (a.size() != b.size()) {
    text += fmt::format("A has {}, B has {}: those that both have are compared\n",
                        counted(static_cast<std::int64_t>(a.size()), "stage"),
                        counted(static_cast<std::int64_t>(b.size()), "stage"));
  }
  if (first.is_virtual() != second.is_virtual()) {
    text += "note: one of them counts virtual seconds\n";
  }
  return text;
}

}  // namespace dynpipe::app
