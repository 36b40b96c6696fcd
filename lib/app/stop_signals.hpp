#pragma once

#include <csignal>
#include <optional>
#include <string>

#include "base/errors.hpp"

namespace dynpipe::app {

/// The run was asked to stop: "stopped by signal 15 (Terminated)".
class StoppedError : public base::RunError {
 public:
  using RunError::RunError;
};

/// While it lives, the first SIGTERM, SIGINT or SIGUSR1 does not end this process but is noted, so
/// that it can stop in good order; the second ends it. At most one lives at a time.
class StopSignals {
 public:
  /// All ranks of a job may get the signal; one should say so. `grace_s`: how long this rank leaves
  /// it to the others to end the job.
  explicit StopSignals(double grace_s);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Throws StoppedError once a signal has come and `grace_s` has passed since this was first
  /// noticed. `now_s`: of any one clock. Cheap enough to be called between two layers.
  void check(double now_s);
  /// What has come: "signal 15 (Terminated)"; empty: nothing yet.
  static std::string came();

 private:
  double grace_s_;
  std::optional<double> noticed_s_;
  struct sigaction old_term_ {
  }, old_int_{}, old_user_{};
};

}  // namespace dynpipe::app
