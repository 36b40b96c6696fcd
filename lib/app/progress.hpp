#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "app/progress_text.hpp"
#include "app/run_events.hpp"
#include "app/terminal.hpp"
#include "base/clock.hpp"

namespace dynpipe::app {

/// Progress on a terminal: a line about the epoch and one about the stages, written over ten times
/// a second at most; an epoch that is over leaves one line.
class LiveProgress final : public RunSink {
 public:
  LiveProgress(RunExtent extent, Terminal terminal, Charset charset, const base::Clock& clock,
               std::FILE* out);

  void on_epoch_begin(std::int64_t epoch) override;
  void on_group(const GroupEvent& event) override;
  void on_evaluation_begin() override;
  void on_evaluation(const EvaluationEvent& event) override;
  void on_checkpoint(const CheckpointEvent& event) override;
  void on_notice(const std::string& text) override;
  void on_end(RunStatus status, const std::string& reason) override;

 private:
  void draw();
  /// What takes the cursor back to where the rows on the screen began.
  std::string way_back() const;
  void erase();

  RunExtent extent_;
  Terminal terminal_;
  Charset charset_;
  const base::Clock& clock_;
  std::FILE* out_;
  ProgressState state_;
  std::vector<StageLoad> loads_;
  std::vector<std::string> shown_;  ///< rows on the screen, the cursor behind the last one
  double shown_s_ = 0;
};

/// Progress in a log: a line every so many updates, and one an epoch.
class LogProgress final : public RunSink {
 public:
  LogProgress(RunExtent extent, std::int64_t log_every, std::FILE* out)
      : extent_(extent), log_every_(log_every), out_(out) {}

  void on_group(const GroupEvent& event) override;
  void on_evaluation(const EvaluationEvent& event) override;
  void on_checkpoint(const CheckpointEvent& event) override;
  void on_notice(const std::string& text) override;

 private:
  RunExtent extent_;
  std::int64_t log_every_;
  std::FILE* out_;
};

}  // namespace dynpipe::app
