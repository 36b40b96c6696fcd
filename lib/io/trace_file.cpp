#include "io/trace_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/errors.hpp"
#include "io/trace.hpp"

namespace dynpipe::io {
namespace {

namespace fs = std::filesystem;
using base::RunError;

/// Long tables are read in parts, short ones take little room.
template <typename Row>
constexpr std::uint64_t k_rows_in_a_chunk = 256;
template <>
constexpr std::uint64_t k_rows_in_a_chunk<EventRow> = 4096;
template <>
constexpr std::uint64_t k_rows_in_a_chunk<StageStatsRow> = 512;

template <typename Row>
void write_table(File& file, const std::vector<Row>& rows) {
  Table::create(file, Row::k_path, columns_of<Row>(), std::max<std::size_t>(rows.size(), 1))
      .append(std::span<const Row>(rows));
}

void write_header(File& file, const TraceHeader& header) {
  file.write_text("/meta/config", header.config);
  file.write_text("/meta/model", header.model);
  file.set_attribute("/", "format", std::string(k_trace_format));
  file.set_attribute("/", "format_version", k_trace_version);
  for (const auto& [name, text] : header.texts) file.set_attribute("/meta", name, text);
  for (const auto& [name, number] : header.numbers) {
    file.set_attribute("/meta", name, number);
  }
  write_table(file, header.layers);
  write_table(file, header.ranks);
  const std::vector<std::string> kinds(k_event_kinds.begin(), k_event_kinds.end());
  file.write_texts("/meta/event_kinds", kinds);
}

[[noreturn]] void refuse(const fs::path& path, const std::error_code& error) {
  throw RunError(fmt::format("{}: cannot be written: {}", path.string(), error.message()));
}

/// Leaves the rows of updates up to `last`; they are in order but for ranks that report late.
template <typename Row>
void cut_table(Table& table, std::int64_t last) {
  std::vector<Row> rows = table.read<Row>();
  const auto later = [last](const Row& row) { return row.update > last; };
  const auto first = std::find_if(rows.begin(), rows.end(), later);
  if (first == rows.end()) return;
  const auto kept = static_cast<std::size_t>(first - rows.begin());
  rows.erase(rows.begin(), first);
  std::erase_if(rows, later);
  table.cut(kept);
  table.append(std::span<const Row>(rows));
}

}  // namespace

TraceFile::TraceFile(fs::path path, std::size_t copies) : path_(std::move(path)) {
  for (std::size_t i = 0; i < copies; ++i) copies_.push_back(std::make_unique<Copy>());
  if (copies == 2) copies_.front()->path = beside("spare");
  copies_.back()->path = path_;
}

TraceFile::TraceFile(TraceFile&&) noexcept = default;

TraceFile::~TraceFile() {
  if (copies_.size() < 2) return;
  std::error_code ignored;
  fs::remove(beside("aside"), ignored);
  fs::remove(copies_.front()->path, ignored);
}

fs::path TraceFile::beside(std::string_view ending) const {
  return path_.parent_path() / fmt::format(".{}.{}", path_.filename().string(), ending);
}

template <typename Visit>
void TraceFile::for_each(Copy& copy, Visit&& visit) {
  std::apply([&](auto&... parts) { (visit(parts), ...); }, copy.parts);
}

TraceFile TraceFile::create(const fs::path& path, const TraceHeader& header) {
  TraceFile trace(path, 2);
  trace.has_events_ = header.events;
  // Complete before it has its name.
  Copy& first = *trace.copies_.back();
  first.path = trace.beside("new");
  for (const auto& one : trace.copies_) {
    Copy& copy = *one;
    copy.file.emplace(File::create_shared(copy.path));
    write_header(*copy.file, header);
    for_each(copy, [&]<typename Row>(Part<Row>& part) {
      if constexpr (std::same_as<Row, EventRow>) {
        if (!header.events) return;
      }
      part.table.emplace(
          Table::create(*copy.file, Row::k_path, columns_of<Row>(), k_rows_in_a_chunk<Row>));
    });
    copy.file->flush();
  }
  std::error_code error;
  fs::rename(first.path, path, error);
  if (error) refuse(path, error);
  first.path = path;
  return trace;
}

TraceFile TraceFile::append(const fs::path& path, std::int64_t last_update,
                            const TraceHeader& header) {
  check_trace(path);
  TraceFile trace(path, 2);
  std::error_code error;
  fs::copy_file(path, trace.copies_.front()->path, fs::copy_options::overwrite_existing, error);
  if (error) refuse(trace.copies_.front()->path, error);
  for (const auto& one : trace.copies_) {
    Copy& copy = *one;
    copy.file.emplace(File::open_shared(copy.path));
    trace.open_tables(copy);
  }
  Copy& first = *trace.copies_.front();
  cut(first, last_update, header);
  const auto updates = std::get<Part<UpdateRow>>(first.parts).table->read<UpdateRow>();
  if (!updates.empty()) trace.last_time_s_ = updates.back().time_s;
  trace.show_hidden();
  if (trace.copies_.size() == 2) cut(*trace.copies_.front(), last_update, header);
  return trace;
}

void TraceFile::cut(Copy& copy, std::int64_t last_update, const TraceHeader& header) {
  copy.file->remove("/meta");
  copy.file->remove("/kappa");
  write_header(*copy.file, header);
  for_each(copy, [&]<typename Row>(Part<Row>& part) {
    if (part.table) cut_table<Row>(*part.table, last_update);
  });
  copy.file->flush();
}

void TraceFile::open_tables(Copy& copy) {
  for_each(copy, [&]<typename Row>(Part<Row>& part) {
    if constexpr (std::same_as<Row, EventRow>) {
      has_events_ = copy.file->has(Row::k_path);
      if (!has_events_) return;
    }
    part.table.emplace(Table::open(*copy.file, Row::k_path, columns_of<Row>()));
  });
}

void TraceFile::change(const std::function<void(File&)>& how) {
  for (const auto& copy : copies_) copy->changes.push_back(how);
}

void TraceFile::set_meta(const std::string& name, const std::string& text) {
  change([name, text](File& file) { file.set_attribute("/meta", name, text); });
}

void TraceFile::set_kappa(double kappa, std::span<const double> cosines,
                          std::vector<GradientRow> samples) {
  const std::vector<double> by_lag(cosines.begin(), cosines.end());
  change([kappa, by_lag, samples = std::move(samples)](File& file) {
    if (file.has("/kappa")) return;
    file.create_dataset("/kappa/cosines", {Element::float64, {by_lag.size()}, {}, 0})
        .write_all(std::span<const double>(by_lag));
    file.set_attribute("/kappa", "kappa", kappa);
    write_table(file, samples);
  });
}

void TraceFile::write_pending(Copy& copy) {
  for (const auto& how : copy.changes) how(*copy.file);
  copy.changes.clear();
  for_each(copy, []<typename Row>(Part<Row>& part) {
    if (part.table) part.table->append(std::span<const Row>(part.pending));
    part.pending.clear();
  });
  copy.file->flush();
}

void TraceFile::commit() {
  write_pending(*copies_.front());
  if (copies_.size() == 2) show_hidden();
}

void TraceFile::show_hidden() {
  Copy& hidden = *copies_.front();
  Copy& shown = *copies_.back();
  const fs::path aside = beside("aside");
  std::error_code error;
  fs::remove(aside, error);
  fs::create_hard_link(path_, aside, error);
  if (error) {  // no such thing here: go on with one copy
    fs::rename(hidden.path, path_, error);
    if (error) refuse(path_, error);
    copies_.pop_back();
    copies_.front()->path = path_;
    return;
  }
  const fs::path spare = hidden.path;
  fs::rename(spare, path_, error);
  if (error) refuse(path_, error);
  fs::rename(aside, spare, error);
  if (error) refuse(spare, error);
  hidden.path = path_;
  shown.path = spare;
  std::swap(copies_.front(), copies_.back());
}

}  // namespace dynpipe::io
