#include "app/chrome_trace.hpp"

#include <nlohmann/json.hpp>
#include <utility>

namespace dynpipe::app {

template <typename... Args>
void ChromeTrace::add(fmt::format_string<Args...> format, Args&&... args) {
  if (events_.size() > 0) fmt::format_to(std::back_inserter(events_), ",\n");
  events_.push_back('{');
  fmt::format_to(std::back_inserter(events_), format, std::forward<Args>(args)...);
  events_.push_back('}');
}

void ChromeTrace::process_name(int rank, const std::string& name) {
  metadata("process_name", rank, 0, name);
  add(R"("ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}})", rank, rank);
}

void ChromeTrace::thread_name(int rank, int thread, const std::string& name) {
  metadata("thread_name", rank, thread, name);
}

void ChromeTrace::span(int rank, int thread, std::string_view category, const std::string& name,
                       double start_s, double end_s) {
  add(R"("ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f})", category,
      name, rank, thread, 1e6 * start_s, 1e6 * (end_s - start_s));
}

void ChromeTrace::metadata(std::string_view what, int rank, int thread, const std::string& name) {
  add(R"("ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}})", what, rank, thread,
      nlohmann::json(name).dump());
}

std::string ChromeTrace::text() const {
  return fmt::format(
      "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"clock\":\"{}\"}},"
      "\"traceEvents\":[\n{}\n]}}\n",
      clock_, fmt::to_string(events_));
}

}  // namespace dynpipe::app
