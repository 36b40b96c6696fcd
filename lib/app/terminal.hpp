#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "app/progress_text.hpp"

namespace dynpipe::app {

/// A terminal that understands cursor movement.
class Terminal {
 public:
  /// Where this process's standard output ends, also under mpirun; empty where that is no terminal
  /// or one without cursor movement (TERM unset or "dumb").
  static std::optional<Terminal> of_stdout();
  /// One of the usual size, whatever stands there.
  Terminal() = default;

  /// As it is now: a user may change it at any time.
  std::size_t columns() const;

 private:
  explicit Terminal(std::string device) : device_(std::move(device)) {}

  std::string device_;  ///< "/dev/pts/3"; empty: of the usual size
};

/// Block characters where the locale's encoding is UTF-8.
Charset charset_of_locale();

}  // namespace dynpipe::app
