#pragma once

#include <functional>
#include <string>

#include "app/run_events.hpp"
#include "app/train_report.hpp"

namespace dynpipe::app {

/// The summary of a run (JSON): there from its start, renewed after every epoch and at its end. It
/// is always whole, whatever ends the job.
class SummaryFile final : public RunSink {
 public:
  /// `to_json` makes the file's text of what the run has to tell so far. `warn` is told, once, when
  /// the file can't be renewed while training goes on. Throws InputError naming the file.
  /// `so_far`: what a resumed run had to tell.
  SummaryFile(std::string file, std::function<std::string(const TrainResult&)> to_json,
              std::function<void(const std::string&)> warn, TrainResult so_far = {});

  void on_evaluation(const EvaluationEvent& event) override;
  void on_checkpoint(const CheckpointEvent& event) override { so_far_.checkpoints.add(event); }
  /// Of a run that failed or stopped.
  void on_end(RunStatus status, const std::string& reason) override;
  /// Of a run that did not. Throws InputError naming the file.
  void complete(const TrainResult& result);

 private:
  void renew();

  std::string file_;
  std::function<std::string(const TrainResult&)> to_json_;
  std::function<void(const std::string&)> warn_;
  bool warned_ = false;
  TrainResult so_far_;
};

}  // namespace dynpipe::app
