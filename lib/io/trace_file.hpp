#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "io/trace_rows.hpp"

namespace dynpipe::io {

/// What a trace says of its run once.
struct TraceHeader {
  std::string config, model;  ///< JSON
  /// Short texts, numbers: attributes of /meta.
  std::vector<std::pair<std::string, std::string>> texts;
  std::vector<std::pair<std::string, std::int64_t>> numbers;
  std::vector<LayerRow> layers;
  std::vector<RankRow> ranks;
  bool events = false;  ///< whether there is an /events
};

/// A trace that is being written. What was added is in the file after `commit`, whole or, if the
/// process is killed meanwhile, not at all: two copies are kept, and the one that is written to is
/// hidden beside the file (`.NAME.spare`) until it is complete and takes its name. Where a file
/// system has no hard links there is one, which a kill within a commit can damage.
///
/// Not for several threads at once.
class TraceFile {
 public:
  /// In place of what is there. Throws RunError naming the file.
  static TraceFile create(const std::filesystem::path& path, const TraceHeader& header);
  /// Goes on with a trace, which must be readable and of this version: rows of updates after
  /// `last_update` are cut off, config, attributes and ranks become those of `header`. Throws
  /// InputError naming what is wrong, the file being as it was.
  static TraceFile append(const std::filesystem::path& path, std::int64_t last_update,
                          const TraceHeader& header);
  TraceFile(TraceFile&&) noexcept;
  TraceFile& operator=(TraceFile&&) = delete;
  /// Removes the spare copy; commits nothing.
  ~TraceFile();

  /// When the last update of a file that is gone on with was made; 0 in a new one.
  double last_time_s() const { return last_time_s_; }
  bool has_events() const { return has_events_; }

  /// A row of a table; of /events none if the file has no such table.
  template <typename Row>
  void add(const Row& row) {
    for (const auto& copy : copies_) std::get<Part<Row>>(copy->parts).pending.push_back(row);
  }
  /// An attribute of /meta.
  void set_meta(const std::string& name, const std::string& text);
  /// What a run found out about delay, see planner::fit_kappa: by lag from 1.
  void set_kappa(double kappa, std::span<const double> cosines, std::vector<GradientRow> samples);

  /// Throws RunError; then the file is as the commit before left it.
  void commit();

 private:
  template <typename Row>
  struct Part {
    std::optional<Table> table;
    std::vector<Row> pending;
  };
  struct Copy {
    std::filesystem::path path;
    std::optional<File> file;
    std::tuple<Part<StartRow>, Part<PlanRow>, Part<UpdateRow>, Part<StageStatsRow>,
               Part<DecisionRow>, Part<EvaluationRow>, Part<EventRow>>
        parts;
    std::vector<std::function<void(File&)>> changes;
  };

  TraceFile(std::filesystem::path path, std::size_t copies);

  /// Calls `visit` with every part of a copy.
  template <typename Visit>
  static void for_each(Copy& copy, Visit&& visit);
  void change(const std::function<void(File&)>& how);
  void open_tables(Copy& copy);
  static void cut(Copy& copy, std::int64_t last_update, const TraceHeader& header);
  void write_pending(Copy& copy);
  /// Gives the hidden copy the file's name, and that one the hidden one's.
  void show_hidden();
  std::filesystem::path beside(std::string_view ending) const;

  std::filesystem::path path_;
  std::vector<std::unique_ptr<Copy>> copies_;  ///< the one with the file's name last; one or two
  bool has_events_ = false;
  double last_time_s_ = 0;
};

}  // namespace dynpipe::io
