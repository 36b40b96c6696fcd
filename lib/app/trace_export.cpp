#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "app/chrome_trace.hpp"
#include "app/text_file.hpp"
#include "app/trace_command.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

constexpr int k_compute = 1;  ///< thread

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string result = "\"";
  for (const char letter : text) result += letter == '"' ? "\"\"" : std::string(1, letter);
  return result + "\"";
}

template <typename T>
T value_at(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::string cell(const io::TableColumn& column, const std::byte* row) {
  const std::byte* const from = row + column.offset;
  switch (column.element) {
    case io::Element::text:
      return quoted(*reinterpret_cast<const std::string*>(from));
    case io::Element::uint8:
      return fmt::format("{}", value_at<std::uint8_t>(from));
    case io::Element::int32:
      return fmt::format("{}", value_at<std::int32_t>(from));
    case io::Element::int64:
      return fmt::format("{}", value_at<std::int64_t>(from));
    default: {
      const auto number = value_at<double>(from);
      return std::isfinite(number) ? fmt::format("{}", number) : "";
    }
  }
}

/// Events have the names of their kinds.
std::string cell_of(const io::TableColumn& column, const std::byte* row, const io::EventRow*) {
  if (column.name == "kind") {
    return std::string(io::k_event_kinds[value_at<std::uint8_t>(row + column.offset)]);
  }
  return cell(column, row);
}
template <typename Row>
std::string cell_of(const io::TableColumn& column, const std::byte* row, const Row*) {
  return cell(column, row);
}

template <typename Row>
std::string table_text(const std::vector<Row>& rows) {
  const std::vector<io::TableColumn> columns = io::columns_of<Row>();
  std::string text;
  const auto end_cell = [&](std::size_t i) { text += i + 1 < columns.size() ? "," : "\n"; };
  for (std::size_t i = 0; i < columns.size(); ++i) {
    text += columns[i].name;
    end_cell(i);
  }
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < columns.size(); ++i) {
      text += cell_of(columns[i], reinterpret_cast<const std::byte*>(&row), &row);
      end_cell(i);
    }
  }
  return text;
}

}  // namespace

std::string perfetto_text(const TraceRun& run) {
  ChromeTrace events(run.trace.clock);
  const plan::Plan& plan = run.plan;
  for (const io::RankRow& rank : run.trace.ranks) {
    events.process_name(rank.rank, fmt::format("rank {} ({}), stage {}", rank.rank, rank.host,
                                               plan.stage_of(rank.rank)));
    events.thread_name(rank.rank, k_compute, "compute");
  }
  for (const io::EventRow& event : run.trace.events) {
    const std::string_view kind = io::k_event_kinds[event.kind];
    const bool waits = kind.starts_with("wait");
    events.span(event.rank, k_compute, waits ? "wait" : "step",
                fmt::format("{} {}", kind, event.index), event.start_s, event.end_s);
  }
  return events.text();
}

std::vector<std::string> write_csv(const io::Trace& trace, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw base::InputError(folder, "", "cannot be made: " + error.message());
  std::vector<std::string> files;
  const auto write = [&](const auto& rows, const std::string& name) {
    files.push_back((std::filesystem::path(folder) / (name + ".csv")).string());
    replace_text_file(files.back(), table_text(rows));
  };
  write(trace.starts, "starts");
  write(trace.plans, "plans");
  write(trace.updates, "updates");
  write(trace.stage_stats, "stage_stats");
  write(trace.decisions, "decisions");
  write(trace.evaluations, "evals");
  write(trace.layers, "layers");
  write(trace.ranks, "ranks");
  if (trace.has_events) write(trace.events, "events");
  return files;
}

}  // namespace dynpipe::app
