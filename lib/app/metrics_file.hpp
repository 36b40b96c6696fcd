#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/run_events.hpp"
#include "base/clock.hpp"

namespace dynpipe::app {

/// Makes the lines of a metrics file. Keys and columns: lib/app/README.md.
class MetricsFormat {
 public:
  virtual ~MetricsFormat() = default;
  /// The line that a file begins with, or "". All lines end in "\n".
  virtual std::string header() const { return ""; }
  virtual std::string update(const GroupEvent& event) const = 0;
  virtual std::string evaluation(const EvaluationEvent& event) const = 0;
  /// The run's end, or "" where the format has no place for it.
  virtual std::string end(RunStatus status, const std::string& reason) const = 0;
  /// The update that a line tells of; empty where it tells of none.
  virtual std::optional<std::int64_t> update_in(const std::string& line) const = 0;

  /// CSV where the name ends in ".csv", else JSON, a record a line.
  static std::unique_ptr<MetricsFormat> for_file(const std::string& file, int stages);
};

/// A record for every update and every evaluation, for programs. Whole lines are written, at most
/// once a second: the file of a job that is killed can be read.
class MetricsFile final : public RunSink {
 public:
  /// Creates the file, or empties it; a run that goes on after `resumed_after` updates keeps what
  /// the file tells of these. `warn` is told, once, when it can be written no more; then what is in
  /// it stays, and training goes on. Throws InputError naming the file.
  MetricsFile(std::string file, int stages, const base::Clock& clock,
              std::function<void(const std::string&)> warn,
              std::optional<std::int64_t> resumed_after = {});
  ~MetricsFile() override;
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;

  void on_group(const GroupEvent& event) override;
  void on_evaluation_begin() override;
  void on_evaluation(const EvaluationEvent& event) override;
  void on_end(RunStatus status, const std::string& reason) override;

 private:
  void add(const std::string& line);
  void flush();
  /// Writes no more, after the system has refused to with `error_number`; `bytes` of the line that
  /// was being written are in the file, and are taken back.
  void give_up(int error_number, std::size_t bytes);

  std::string file_;
  std::unique_ptr<MetricsFormat> format_;
  const base::Clock& clock_;
  std::function<void(const std::string&)> warn_;
  std::string pending_;  ///< lines that are not in the file yet
  int descriptor_;
  double flushed_s_;
};

}  // namespace dynpipe::app
