#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace dynpipe::app {

/// Trace events (JSON object format of Chrome's tracing, which Perfetto reads): a process a rank,
/// with threads of spans. Times are given in seconds.
class ChromeTrace {
 public:
  /// `clock`: what kind of time it is: "simulated", "real", "virtual".
  explicit ChromeTrace(std::string_view clock) : clock_(clock) {}

  void process_name(int rank, const std::string& name);
  void thread_name(int rank, int thread, const std::string& name);
  void span(int rank, int thread, std::string_view category, const std::string& name,
            double start_s, double end_s);
  /// The whole file.
  std::string text() const;

 private:
  void metadata(std::string_view what, int rank, int thread, const std::string& name);
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args);

  std::string clock_;
  fmt::memory_buffer events_;
};

}  // namespace dynpipe::app
