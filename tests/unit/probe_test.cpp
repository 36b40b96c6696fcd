// Files of /proc and /sys as machines have them, and what is read from them.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "probe/cgroup.hpp"
#include "probe/cpus.hpp"
#include "probe/number_list.hpp"
#include "probe/usage.hpp"

namespace dynpipe::probe {
namespace {

using Files = std::map<std::string, std::string>;

ReadText from(const Files& files) {
  return [&files](const std::string& path) -> std::optional<std::string> {
    const auto file = files.find(path);
    return file == files.end() ? std::nullopt : std::optional(file->second);
  };
}

TEST(NumberListTest, ReadsWhatLinuxWrites) {
  EXPECT_EQ(parse_number_list("0-3,8,10-11\n"), (std::vector{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_number_list("7"), std::vector{7});
  EXPECT_EQ(parse_number_list("\n"), std::vector<int>{});
}

TEST(NumberListTest, RefusesWhatIsNoList) {
  for (const char* text : {"3-1", "a", "1,", "1,,2", "-1", "1-", "0-99999999999", "1 2"}) {
    EXPECT_EQ(parse_number_list(text), std::nullopt) << text;
  }
}

TEST(NumberListTest, WritesRangesOnceAndInOrder) {
  EXPECT_EQ(number_list({11, 3, 2, 1, 0, 8, 10, 8}), "0-3,8,10-11");
  EXPECT_EQ(number_list({}), "");
  EXPECT_EQ(number_list({1, 2}), "1-2");
}

/// Two sockets of 64 cores with two hardware threads each, a NUMA node a socket.
Files two_sockets() {
  Files files{{"/sys/devices/system/cpu/online", "0-255\n"},
              {"/sys/devices/system/node/online", "0-1\n"},
              {"/sys/devices/system/node/node0/cpulist", "0-63,128-191\n"},
              {"/sys/devices/system/node/node1/cpulist", "64-127,192-255\n"}};
  for (int id = 0; id < 256; ++id) {
    files[fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", id)] =
        fmt::format("{},{}\n", id % 128, id % 128 + 128);
  }
  return files;
}

TEST(CpusTest, HardwareThreadsOfACoreAndNodes) {
  const Files files = two_sockets();
  const std::vector<Cpu> cpus = online_cpus(from(files));
  ASSERT_EQ(cpus.size(), 256U);
  EXPECT_EQ(cpus[200], (Cpu{200, 72, 1}));
  EXPECT_EQ(core_count(cpus), 128);
  EXPECT_EQ(nodes_of(cpus), (std::vector{0, 1}));
  EXPECT_EQ(core_count(with_ids(cpus, {5, 133, 6})), 2);
}

TEST(CpusTest, WithoutTopologyEachIsACore) {
  const Files files{{"/sys/devices/system/cpu/online", "0,2-3\n"}};
  EXPECT_EQ(online_cpus(from(files)), (std::vector<Cpu>{{0, 0, 0}, {2, 2, 0}, {3, 3, 0}}));
}

TEST(CpusTest, ThisProcessMayRunSomewhere) {
  const std::vector<int> allowed = allowed_cpus();
  ASSERT_FALSE(allowed.empty());
  EXPECT_EQ(with_ids(online_cpus(read_text), allowed).size(), allowed.size());
}

TEST(CpusTest, ModelAndExtensions) {
  const CpuModel model = parse_cpuinfo(
      "processor\t: 0\nmodel name\t: AMD EPYC 7763 64-Core Processor\n"
      "flags\t\t: fpu sse4_2 avx fma avx2 erms\n\nprocessor\t: 1\nmodel name\t: other\n");
  EXPECT_EQ(model.name, "AMD EPYC 7763 64-Core Processor");
  EXPECT_EQ(model.extensions, (std::vector<std::string>{"sse4_2", "avx", "fma", "avx2"}));
}

TEST(GroupLimitsTest, Version2TakesTheTightestOnTheWayUp) {
  const Files files{
      {"/proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_7/step_0\n"},
      {"/proc/self/mountinfo",
       "22 60 0:21 / /proc rw,nosuid - proc proc rw\n"
       "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"},
      {"/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/cpu.max", "max 100000\n"},
      {"/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/memory.max", "max\n"},
      {"/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/cpu.max", "150000 100000\n"},
      {"/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/memory.max", "4294967296\n"},
      {"/sys/fs/cgroup/system.slice/memory.max", "8589934592\n"}};
  const GroupLimits limits = group_limits(from(files));
  ASSERT_TRUE(limits.cores);
  EXPECT_EQ(limits.cores->value, 1.5);
  ASSERT_TRUE(limits.memory_bytes);
  EXPECT_EQ(limits.memory_bytes->value, std::int64_t{4} << 30);
  EXPECT_EQ(limits.memory_bytes->folder, "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7");
}

TEST(GroupLimitsTest, Version1HasAHierarchyOfEachController) {
  const Files files{
      {"/proc/self/cgroup", "4:memory:/slurm/uid_0/job_7\n2:cpu,cpuacct:/slurm\n0::/\n"},
      {"/proc/self/mountinfo",
       "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
       "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
       "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_quota_us", "30000\n"},
      {"/sys/fs/cgroup/cpu,cpuacct/slurm/cpu.cfs_period_us", "100000\n"},
      {"/sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.limit_in_bytes", "9223372036854771712\n"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"}};
  const GroupLimits limits = group_limits(from(files));
  ASSERT_TRUE(limits.cores);
  EXPECT_EQ(limits.cores->value, 0.3);
  ASSERT_TRUE(limits.memory_bytes);
  EXPECT_EQ(limits.memory_bytes->folder, "/sys/fs/cgroup/memory");
}

TEST(GroupLimitsTest, AContainerSeesItsOwnGroupAsTheRoot) {
  const std::string memory = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
  for (const char* path : {"/docker/abc", "/somewhere/else"}) {
    const Files files{
        {"/proc/self/cgroup", fmt::format("4:memory:{}\n", path)},
        {"/proc/self/mountinfo",
         "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"},
        {memory, "536870912\n"}};
    const GroupLimits limits = group_limits(from(files));
    ASSERT_TRUE(limits.memory_bytes) << path;
    EXPECT_EQ(limits.memory_bytes->value, 536870912);
  }
}

TEST(GroupLimitsTest, NoneWhereNothingIsSaid) {
  const Files files;
  const GroupLimits limits = group_limits(from(files));
  EXPECT_FALSE(limits.cores);
  EXPECT_FALSE(limits.memory_bytes);
  EXPECT_EQ(parse_cpu_max("-1 100000"), std::nullopt);
  EXPECT_EQ(parse_cpu_max(""), std::nullopt);
  EXPECT_EQ(parse_memory_limit("max\n"), std::nullopt);
}

TEST(UsageTest, Memory) {
  const auto memory =
      parse_meminfo("MemTotal:       24683656 kB\nMemFree:        1 kB\nMemAvailable:   2048 kB\n");
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->total_bytes, std::int64_t{24683656} * 1024);
  EXPECT_EQ(memory->available_bytes, 2048 * 1024);
  EXPECT_FALSE(parse_meminfo("MemTotal: 12 kB\n"));
  const ProcessMemory process = parse_status("Name:\tx\nVmHWM:\t  512 kB\nVmRSS:\t  256 kB\n");
  EXPECT_EQ(process.peak_bytes, 512 * 1024);
  EXPECT_EQ(process.resident_bytes, 256 * 1024);
}

TEST(UsageTest, CpuTicks) {
  const auto ticks = parse_cpu_ticks("cpu  100 20 30 400 5 6 7 8 0 0\ncpu0 1 2 3\n");
  ASSERT_TRUE(ticks);
  EXPECT_EQ(ticks->busy, 163);
  EXPECT_EQ(ticks->stolen, 8);
  EXPECT_FALSE(parse_cpu_ticks("cpu 1 2"));
  EXPECT_FALSE(parse_cpu_ticks(""));
}

}  // namespace
}  // namespace dynpipe::probe
