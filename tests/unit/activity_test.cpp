// What the OS says of a process in an interval: files as machines have them, and this machine's.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "probe/activity.hpp"
#include "probe/cgroup.hpp"
#include "support/files.hpp"
#include "support/manual_clock.hpp"

namespace dynpipe::probe {
namespace {

using base::is_known;

constexpr const char* k_stat =
    "cpu  100 0 100 1000 0 0 0 60 0 0\n"
    "cpu0 60 0 40 500 0 0 0 50 0 0\n"
    "cpu1 40 0 60 500 0 0 0 10 0 0\n"
    "intr 1 2 3\n";

TEST(ActivityFilesTest, Schedstat) {
  const ScheduleTimes times = parse_schedstat("1500000000 250000000 17\n");
  EXPECT_DOUBLE_EQ(times.cpu_s, 1.5);
  EXPECT_DOUBLE_EQ(times.run_wait_s, 0.25);
  EXPECT_FALSE(is_known(parse_schedstat("").cpu_s));
  EXPECT_FALSE(is_known(parse_schedstat("12").run_wait_s));
}

TEST(ActivityFilesTest, Pressure) {
  EXPECT_DOUBLE_EQ(parse_pressure_s("some avg10=1.36 avg60=4.41 avg300=1.94 total=16285609\n"
                                    "full avg10=0.00 avg60=0.00 avg300=0.00 total=99\n"),
                   16.285609);
  EXPECT_FALSE(is_known(parse_pressure_s("full avg10=0.00 total=99\n")));
  EXPECT_FALSE(is_known(parse_pressure_s("")));
}

TEST(ActivityFilesTest, ThrottlingOfBothVersions) {
  EXPECT_DOUBLE_EQ(parse_throttled_s("nr_periods 4\nnr_throttled 2\nthrottled_time 2500000000\n"),
                   2.5);
  EXPECT_DOUBLE_EQ(parse_throttled_s("usage_usec 7\nnr_throttled 2\nthrottled_usec 1500000\n"),
                   1.5);
  EXPECT_FALSE(is_known(parse_throttled_s("usage_usec 7\n")));
}

TEST(ActivityFilesTest, CoresAreThoseThatCount) {
  const CoreTimes both = parse_core_times(k_stat, {0, 1}, 100);
  EXPECT_DOUBLE_EQ(both.busy_s, 1);
  EXPECT_DOUBLE_EQ(both.stolen_s, 0.3);
  EXPECT_DOUBLE_EQ(parse_core_times(k_stat, {1}, 100).stolen_s, 0.1);
  EXPECT_FALSE(is_known(parse_core_times(k_stat, {7}, 100).busy_s));
  EXPECT_FALSE(is_known(parse_core_times("", {0}, 100).busy_s));
}

TEST(ActivityFilesTest, CpuStatOfGroupsUpToTheRoots) {
  const std::map<std::string, std::string> files = {
      {"/proc/self/cgroup", "1:cpu,cpuacct:/job/step\n0::/job\n"},
      {"/proc/self/mountinfo",
       "32 31 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
       "38 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw\n"},
      {"/cg/cpu/job/step/cpu.stat", ""},
      {"/cg/cpu/cpu.stat", ""},
      {"/cg/unified/job/cpu.stat", ""}};
  const auto read = [&](const std::string& path) -> std::optional<std::string> {
    const auto file = files.find(path);
    return file == files.end() ? std::nullopt : std::optional(file->second);
  };
  EXPECT_EQ(group_cpu_stats(read),
            (std::vector<std::string>{"/cg/cpu/job/step/cpu.stat", "/cg/cpu/cpu.stat",
                                      "/cg/unified/job/cpu.stat"}));
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

TEST(ActivityTest, TellsWhatHappenedSinceTheLastSample) {
  const testing::TemporaryFolder folder;
  ActivityFiles files;
  files.schedule = folder / "schedstat";
  files.stat = folder / "stat";
  files.pressure_cpu = folder / "cpu";
  files.pressure_memory = folder / "memory";  // not there
  files.pressure_io = "";
  files.groups = {folder / "inner", folder / "outer"};
  files.cpus = {0};
  write(files.schedule, "1000000000 0 1\n");
  write(files.stat, k_stat);
  write(files.pressure_cpu, "some avg10=0 total=1000000\n");
  write(files.groups[0], "throttled_time 1000000000\n");
  write(files.groups[1], "throttled_time 0\n");
  testing::ManualClock clock;
  Activity activity(clock, files);
  clock.pass(4);
  write(files.schedule, "3000000000 1000000000 2\n");
  write(files.pressure_cpu, "some avg10=0 total=1500000\n");
  write(files.groups[0], "throttled_time 1250000000\n");
  const ActivitySample sample = activity.sample();
  EXPECT_DOUBLE_EQ(sample.interval_s, 4);
  EXPECT_DOUBLE_EQ(sample.cpu_s, 2);
  EXPECT_DOUBLE_EQ(sample.run_wait_s, 1);
  EXPECT_DOUBLE_EQ(sample.pressure_cpu_s, 0.5);
  EXPECT_DOUBLE_EQ(sample.throttled_s, 0.25);
  EXPECT_DOUBLE_EQ(sample.core_stolen_s, 0);
  EXPECT_FALSE(is_known(sample.pressure_memory_s)) << "no file: unknown, not zero";
  EXPECT_FALSE(is_known(sample.pressure_io_s));
  EXPECT_DOUBLE_EQ(activity.sample().cpu_s, 0);
}

TEST(ActivityTest, CountsTheCallersTimeOnTheCore) {
  const base::SteadyClock clock;
  Activity activity(clock);
  if (!is_known(activity.sample().cpu_s)) GTEST_SKIP() << "no schedstat here";
  const double end_s = clock.now_s() + 0.05;
  while (clock.now_s() < end_s) {
  }
  const ActivitySample sample = activity.sample();
  // Whoever is ready to run is on a core, or waits for one, or is held up.
  EXPECT_GT(sample.cpu_s + sample.run_wait_s, 0.04);
}

}  // namespace
}  // namespace dynpipe::probe
