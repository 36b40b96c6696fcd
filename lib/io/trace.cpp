#include "io/trace.hpp"

#include <fmt/format.h>

#include "base/errors.hpp"

namespace dynpipe::io {
namespace {

using base::InputError;

File open_trace(const std::filesystem::path& path) {
  File file = File::open(path);
  const auto format = file.text_attribute("/", "format");
  if (!format || format->empty() || format->front() != k_trace_format) {
    throw InputError(file.name(), "file", "is not a trace of dynpipe");
  }
  const auto version = file.attribute("/", "format_version");
  if (!version || version->empty() || version->front() != static_cast<double>(k_trace_version)) {
    throw InputError(file.name(), "format_version",
                     fmt::format("is {}, only {} is known",
                                 version && !version->empty() ? fmt::format("{}", version->front())
                                                              : std::string("missing"),
                                 k_trace_version));
  }
  return file;
}

template <typename Row>
std::vector<Row> table(const File& file) {
  return Table::open(file, Row::k_path, columns_of<Row>()).template read<Row>();
}

std::string meta(const File& file, const std::string& name) {
  const auto texts = file.text_attribute("/meta", name);
  return texts && !texts->empty() ? texts->front() : "";
}

std::optional<double> kappa_in(const File& file) {
  if (!file.has("/kappa")) return std::nullopt;
  const auto found = file.attribute("/kappa", "kappa");
  return found && !found->empty() ? std::optional(found->front()) : std::nullopt;
}

}  // namespace

void check_trace(const std::filesystem::path& path) {
  open_trace(path);
}

Trace read_trace(const std::filesystem::path& path) {
  const File file = open_trace(path);
  Trace trace;
  trace.file = file.name();
  trace.config = file.text("/meta/config");
  trace.model = file.text("/meta/model");
  trace.clock = meta(file, "clock");
  trace.status = meta(file, "status");
  const auto batch = file.attribute("/meta", "batch");
  if (!batch || batch->size() != 1 || !(batch->front() >= 1 && batch->front() <= 1e9)) {
    throw InputError(trace.file, "/meta: attribute 'batch'", "is no number of samples");
  }
  trace.batch = static_cast<std::int64_t>(batch->front());
  trace.layers = table<LayerRow>(file);
  trace.ranks = table<RankRow>(file);
  trace.starts = table<StartRow>(file);
  trace.plans = table<PlanRow>(file);
  trace.updates = table<UpdateRow>(file);
  trace.stage_stats = table<StageStatsRow>(file);
  trace.decisions = table<DecisionRow>(file);
  trace.evaluations = table<EvaluationRow>(file);
  trace.has_events = file.has(EventRow::k_path);
  if (trace.has_events) trace.events = table<EventRow>(file);
  for (const EventRow& event : trace.events) {
    if (event.kind >= k_event_kinds.size()) {
      throw InputError(trace.file, EventRow::k_path,
                       fmt::format("has an event of unknown kind {}", event.kind));
    }
  }
  trace.kappa = kappa_in(file);
  return trace;
}

double kappa_of_trace(const std::filesystem::path& path) {
  const File file = open_trace(path);
  const auto kappa = kappa_in(file);
  if (!kappa) {
    throw InputError(file.name(), "/kappa",
                     "is missing: train with --measure-kappa N to have it in the trace");
  }
  return *kappa;
}

}  // namespace dynpipe::io
