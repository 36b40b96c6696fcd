#include "probe/activity.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

#include "probe/cgroup.hpp"
#include "probe/cpus.hpp"
#include "probe/host_state.hpp"

namespace dynpipe::probe {
namespace {

using base::is_known;

constexpr std::size_t k_first_buffer_bytes = std::size_t{1} << 16;
constexpr std::size_t k_bytes_per_cpu = 256;

/// Takes the next whole number off the front, past blanks. Empty where there is none.
std::optional<double> take_number(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return static_cast<double>(number);
}

/// The number that follows `key` at the start of a line, or behind `key` within the first line.
std::optional<double> number_after(std::string_view text, std::string_view key) {
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at + 1)) {
    if (at > 0 && text[at - 1] != '\n' && text[at - 1] != ' ') continue;
    std::string_view rest = text.substr(at + key.size());
    return take_number(rest);
  }
  return std::nullopt;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

template <typename Visit>
void visit_figures(const Visit& visit) {
  using S = ActivitySample;
  for (double S::*figure :
       {&S::interval_s, &S::cpu_s, &S::run_wait_s, &S::voluntary_switches, &S::involuntary_switches,
        &S::process_cpu_s, &S::minor_faults, &S::major_faults, &S::throttled_s, &S::core_busy_s,
        &S::core_stolen_s, &S::pressure_cpu_s, &S::pressure_memory_s, &S::pressure_io_s}) {
    visit(figure);
  }
}

void add_usage(ActivitySample& totals) {
  rusage usage{};
  if (getrusage(RUSAGE_THREAD, &usage) == 0) {
    totals.voluntary_switches = static_cast<double>(usage.ru_nvcsw);
    totals.involuntary_switches = static_cast<double>(usage.ru_nivcsw);
  }
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    totals.process_cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    totals.minor_faults = static_cast<double>(usage.ru_minflt);
    totals.major_faults = static_cast<double>(usage.ru_majflt);
  }
}

}  // namespace

ActivityFiles own_activity_files() {
  ActivityFiles files;
  files.groups = group_cpu_stats(read_text);
  files.cpus = allowed_cpus();
  return files;
}

Activity::Activity(const base::Clock& clock, const ActivityFiles& files)
    : clock_(clock),
      cpus_(files.cpus),
      schedule_(open(files.schedule)),
      stat_(open(files.stat)),
      pressure_cpu_(open(files.pressure_cpu)),
      pressure_memory_(open(files.pressure_memory)),
      pressure_io_(open(files.pressure_io)),
      ticks_per_s_(ticks_per_s()) {
  for (const std::string& group : files.groups) groups_.push_back(open(group));
  const int last = cpus_.empty() ? 0 : *std::max_element(cpus_.begin(), cpus_.end());
  buffer_.resize(
      std::max(k_first_buffer_bytes, static_cast<std::size_t>(last + 2) * k_bytes_per_cpu));
  before_ = totals();
}

Activity::~Activity() {
  for (const Source& source : {schedule_, stat_, pressure_cpu_, pressure_memory_, pressure_io_}) {
    if (source.descriptor >= 0) ::close(source.descriptor);
  }
  for (const Source& source : groups_) {
    if (source.descriptor >= 0) ::close(source.descriptor);
  }
}

ActivitySample Activity::sample() {
  const ActivitySample now = totals();
  const ActivitySample since = difference(now, before_);
  before_ = now;
  return since;
}

ActivitySample Activity::totals() {
  ActivitySample totals;
  totals.interval_s = clock_.now_s();
  add_usage(totals);
  const ScheduleTimes times = parse_schedstat(text_of(schedule_));
  totals.cpu_s = times.cpu_s;
  totals.run_wait_s = times.run_wait_s;
  totals.throttled_s = throttled_s();
  const CoreTimes cores = parse_core_times(text_of(stat_), cpus_, ticks_per_s_);
  totals.core_busy_s = cores.busy_s;
  totals.core_stolen_s = cores.stolen_s;
  totals.pressure_cpu_s = parse_pressure_s(text_of(pressure_cpu_));
  totals.pressure_memory_s = parse_pressure_s(text_of(pressure_memory_));
  totals.pressure_io_s = parse_pressure_s(text_of(pressure_io_));
  return totals;
}

Activity::Source Activity::open(const std::string& path) {
  return {path.empty() ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
}

/// As much of a file as the buffer holds; what is wanted stands at the front of each. Empty where
/// it cannot be read.
std::string_view Activity::text_of(const Source& source) {
  if (source.descriptor < 0) return {};
  std::size_t length = 0;
  while (length < buffer_.size()) {
    const ssize_t got = ::pread(source.descriptor, buffer_.data() + length, buffer_.size() - length,
                                static_cast<off_t>(length));
    if (got <= 0) break;
    length += static_cast<std::size_t>(got);
  }
  return {buffer_.data(), length};
}

double Activity::throttled_s() {
  double total = k_unknown;
  for (const Source& group : groups_) {
    const double s = parse_throttled_s(text_of(group));
    if (is_known(s)) total = is_known(total) ? total + s : s;
  }
  return total;
}

ActivitySample difference(const ActivitySample& later, const ActivitySample& earlier) {
  ActivitySample since;
  visit_figures([&](auto figure) { since.*figure = later.*figure - earlier.*figure; });
  return since;
}

ActivitySample sum(const ActivitySample& one, const ActivitySample& other) {
  ActivitySample both;
  visit_figures([&](auto figure) { both.*figure = one.*figure + other.*figure; });
  return both;
}

ScheduleTimes parse_schedstat(std::string_view text) {
  const auto cpu = take_number(text);
  const auto wait = take_number(text);
  if (!cpu || !wait) return {};
  return {1e-9 * *cpu, 1e-9 * *wait};
}

double parse_pressure_s(std::string_view text) {
  const std::string_view some = text.substr(0, text.find('\n'));
  if (!some.starts_with("some ")) return k_unknown;
  const auto total = number_after(some, "total=");
  return total ? 1e-6 * *total : k_unknown;
}

double parse_throttled_s(std::string_view text) {
  if (const auto microseconds = number_after(text, "throttled_usec ")) return 1e-6 * *microseconds;
  if (const auto nanoseconds = number_after(text, "throttled_time ")) return 1e-9 * *nanoseconds;
  return k_unknown;
}

CoreTimes parse_core_times(std::string_view text, const std::vector<int>& cpus,
                           double ticks_per_s) {
  double busy = 0, stolen = 0;
  int found = 0;
  while (text.starts_with("cpu")) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(3, end - 3);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.front() == ' ') continue;  // the sum of all
    const auto cpu = take_number(line);
    if (!cpu || std::find(cpus.begin(), cpus.end(), static_cast<int>(*cpu)) == cpus.end()) continue;
    // user nice system idle iowait irq softirq steal
    std::array<double, 8> ticks{};
    for (double& value : ticks) value = take_number(line).value_or(k_unknown);
    busy += ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
    stolen += ticks[7];
    ++found;
  }
  if (found == 0) return {};
  return {busy / ticks_per_s / found, stolen / ticks_per_s / found};
}

}  // namespace dynpipe::probe
