#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/known.hpp"

namespace dynpipe::probe {

using base::k_unknown;

/// What the OS says happened to a rank in an interval; plain numbers, each `k_unknown` where the
/// machine does not tell. Times in seconds.
struct ActivitySample {
  double interval_s = 0;

  // Of the thread that the `Activity` was made by.
  double cpu_s = k_unknown;                 ///< on a core
  double run_wait_s = k_unknown;            ///< ready to run, while another had the core
  double voluntary_switches = k_unknown;    ///< times that it gave the core up
  double involuntary_switches = k_unknown;  ///< times that the core was taken from it

  // Of the whole process.
  double process_cpu_s = k_unknown;
  double minor_faults = k_unknown;  ///< page faults that needed no disk
  double major_faults = k_unknown;

  double throttled_s = k_unknown;  ///< control groups used up their quota; 0: they did not

  // Of the CPUs that the thread may run on: means over them.
  double core_busy_s = k_unknown;    ///< with whatever process
  double core_stolen_s = k_unknown;  ///< kept by the host of this virtual machine

  // Of the whole host: time in which at least one task was held up for want of it.
  double pressure_cpu_s = k_unknown;
  double pressure_memory_s = k_unknown;
  double pressure_io_s = k_unknown;
};

/// The files that an `Activity` reads; an empty path, or one where nothing is, leaves its figures
/// unknown.
struct ActivityFiles {
  std::string schedule = "/proc/thread-self/schedstat";
  std::string stat = "/proc/stat";
  std::string pressure_cpu = "/proc/pressure/cpu";
  std::string pressure_memory = "/proc/pressure/memory";
  std::string pressure_io = "/proc/pressure/io";
  std::vector<std::string> groups;  ///< cpu.stat of control groups, see `group_cpu_stats`
  std::vector<int> cpus;            ///< whose lines of `stat` are meant
};
/// Those of the calling thread on this machine.
ActivityFiles own_activity_files();

/// Watches the calling thread and its process by what the OS counts anyway. Opens its files once; a
/// reading allocates nothing and takes some tens of microseconds (`scripts/bench.sh forest` says
/// how many).
class Activity {
 public:
  explicit Activity(const base::Clock& clock, const ActivityFiles& files = own_activity_files());
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  /// What happened since the last call, or since this object was made. To be called by the thread
  /// that made it.
  ActivitySample sample();

 private:
  /// A file that stays open.
  struct Source {
    int descriptor = -1;
  };
  /// Since the process or the host started; `interval_s` is the clock's time.
  ActivitySample totals();
  Source open(const std::string& path);
  std::string_view text_of(const Source& source);
  double throttled_s();

  const base::Clock& clock_;
  std::vector<int> cpus_;
  Source schedule_, stat_, pressure_cpu_, pressure_memory_, pressure_io_;
  std::vector<Source> groups_;
  std::vector<char> buffer_;
  double ticks_per_s_;
  ActivitySample before_;
};

/// Two intervals together; unknown where either is.
ActivitySample sum(const ActivitySample& one, const ActivitySample& other);
/// What became of every figure from one reading to a later one; unknown where either is.
ActivitySample difference(const ActivitySample& later, const ActivitySample& earlier);

// What the files say; `k_unknown` for what they do not.

/// /proc/.../schedstat: on a core, waiting for one, both in nanoseconds.
struct ScheduleTimes {
  double cpu_s = k_unknown, run_wait_s = k_unknown;
};
ScheduleTimes parse_schedstat(std::string_view text);
/// /proc/pressure/...: the total of "some", in microseconds there.
double parse_pressure_s(std::string_view text);
/// cpu.stat: throttled_usec (version 2) or throttled_time in nanoseconds (version 1).
double parse_throttled_s(std::string_view text);
/// The lines "cpuN" of /proc/stat of these CPUs, means over them, in ticks there.
struct CoreTimes {
  double busy_s = k_unknown, stolen_s = k_unknown;
};
CoreTimes parse_core_times(std::string_view text, const std::vector<int>& cpus, double ticks_per_s);

}  // namespace dynpipe::probe
