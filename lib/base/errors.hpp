#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace dynpipe::base {

/// What the process returns to the shell.
enum class ExitCode : int {
  ok = 0,
  failed_run = 1,
  bad_input = 2,
  requeue = 75,  ///< stopped in good order: run again to go on (EX_TEMPFAIL)
};

/// Any failure that `main` reports. Nothing below `main` catches it, except to hand it to all
/// ranks.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Something the user wrote (a file, an option) cannot be used. The message reads
/// "`where`: `field`: `problem`"; either of the first two may be empty.
class InputError : public Error {
 public:
  InputError(std::string_view where, std::string_view field, std::string_view problem);
};

/// The run itself failed: a loss that is not finite, a rank that is gone, a library's refusal.
class RunError : public Error {
 public:
  explicit RunError(const std::string& message) : Error(ExitCode::failed_run, message) {}
};

/// A wait passed its deadline. The message names who waited for what, and how long.
class DeadlineError : public RunError {
 public:
  using RunError::RunError;
};

}  // namespace dynpipe::base
