#include "app/disturbance.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>

#include "base/errors.hpp"
#include "probe/cgroup.hpp"

namespace dynpipe::app {
namespace {

using Kind = DisturbanceSpec::Kind;

const std::string k_cpu_groups = "/sys/fs/cgroup/cpu";
constexpr int k_period_us = 10'000;
/// Of a hog that does not always run.
constexpr double k_duty_s = 0.01;

bool write_file(const std::string& path, const std::string& text) {
  std::ofstream stream(path);
  stream << text << std::flush;
  return static_cast<bool>(stream);
}

/// The folder of this process's group of version 1.
std::string own_group() {
  for (const auto& group :
       probe::parse_memberships(probe::read_text("/proc/self/cgroup").value_or(""))) {
    for (const std::string& controller : group.controllers) {
      if (controller == "cpu") return k_cpu_groups + (group.path == "/" ? "" : group.path);
    }
  }
  return k_cpu_groups;
}

bool is_writable(const std::string& folder) {
  return access((folder + "/cgroup.procs").c_str(), W_OK) == 0 &&
         access((folder + "/cpu.cfs_quota_us").c_str(), W_OK) == 0;
}

bool has_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t end = rest.find(':');
    if (access((rest.substr(0, end) + "/" + name).c_str(), X_OK) == 0) return true;
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  return false;
}

bool set_cpu(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

double now_s() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// What a child does between fork and its work: nothing that allocates.
void settle_in(pid_t parent, int cpu, int seconds) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent || !set_cpu(cpu)) _exit(1);
  alarm(static_cast<unsigned>(seconds));
}

[[noreturn]] void burn(double level) {
  if (level >= 1) {
    for (volatile bool on = true; on;) {
    }
  }
  for (;;) {
    const double end_s = now_s() + level * k_duty_s;
    while (now_s() < end_s) {
    }
    const timespec rest{0, static_cast<long>(1e9 * (1 - level) * k_duty_s)};
    nanosleep(&rest, nullptr);
  }
}

DisturbanceSpec hog(int workers, double level, bool same_core) {
  return {Kind::hog, workers, level, {}, same_core};
}

DisturbanceSpec stress(const std::vector<std::string>& words, bool same_core) {
  return {Kind::stress, 1, 1, words, same_core};
}

}  // namespace

std::string DisturbanceSpec::name() const {
  const char* place = same_core ? "same core" : "other core";
  switch (kind) {
    case Kind::none:
      return "none";
    case Kind::hog:
      return level < 1 ? fmt::format("hog x{} at {:.0f} % {}", workers, 100 * level, place)
                       : fmt::format("hog x{} {}", workers, place);
    case Kind::quota:
      return fmt::format("quota {:.0f} %", 100 * level);
    case Kind::stress:
      break;
  }
  std::string text = "stress-ng";
  for (const std::string& word : stressor) text += " " + word;
  return text + " " + place;
}

std::vector<DisturbanceSpec> possible_disturbances(int core, int other_core,
                                                   std::vector<std::string>& notes) {
  const bool has_other = core != other_core;
  std::vector<DisturbanceSpec> all{DisturbanceSpec{}};
  for (const double level : {0.3, 0.6}) all.push_back(hog(1, level, true));
  for (const int workers : {1, 2, 3}) all.push_back(hog(workers, 1, true));
  if (const std::string group = own_group(); is_writable(group)) {
    for (const double level : {0.8, 0.5, 0.3}) all.push_back({Kind::quota, 1, level, {}, true});
  } else {
    notes.push_back("no quotas: " + group + " cannot be written to");
  }
  const std::vector<std::vector<std::string>> stressors = {
      {"--cpu", "1", "--cpu-method", "matrixprod"},
      {"--cache", "1"},
      {"--stream", "1"},
      {"--vm", "1", "--vm-bytes", "128M", "--vm-keep"}};
  const bool has_stress = has_program("stress-ng");
  if (!has_stress) notes.emplace_back("no stress-ng: caches and memory are not disturbed");
  for (const bool same_core : {true, false}) {
    if (!same_core && !has_other) continue;
    if (!same_core) all.push_back(hog(1, 1, false));
    for (const auto& words : stressors) {
      if (has_stress) all.push_back(stress(words, same_core));
    }
  }
  if (!has_other) notes.emplace_back("one core: nothing disturbs from another");
  return all;
}

Disturbance::Disturbance(const DisturbanceSpec& spec, int core, int other_core, int seconds) {
  const int cpu = spec.same_core ? core : other_core;
  switch (spec.kind) {
    case Kind::none:
      break;
    case Kind::hog:
      for (int i = 0; i < spec.workers; ++i) start_hog(cpu, spec.level, seconds);
      settling_s_ = 0.05;
      break;
    case Kind::quota:
      limit(spec.level);
      settling_s_ = 0.05;
      break;
    case Kind::stress:
      start_stress(spec.stressor, cpu, seconds);
      settling_s_ = 0.4;
      break;
  }
}

Disturbance::~Disturbance() {
  for (const pid_t child : children_) kill(-child, SIGKILL);
  for (const pid_t child : children_) waitpid(child, nullptr, 0);
  if (group_.empty()) return;
  write_file(group_.substr(0, group_.rfind('/')) + "/cgroup.procs", std::to_string(getpid()));
  rmdir(group_.c_str());
}

double Disturbance::settling_s() const {
  return settling_s_;
}

void Disturbance::start_hog(int core, double level, int seconds) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw base::RunError(fmt::format("no process: {}", std::strerror(errno)));
  if (child == 0) {
    settle_in(parent, core, seconds);
    burn(level);
  }
  setpgid(child, child);
  children_.push_back(child);
}

void Disturbance::start_stress(const std::vector<std::string>& stressor, int core, int seconds) {
  std::vector<std::string> words{"stress-ng", "--quiet",   "--temp-path",
                                 "/tmp",      "--timeout", fmt::format("{}s", seconds)};
  words.insert(words.end(), stressor.begin(), stressor.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw base::RunError(fmt::format("no process: {}", std::strerror(errno)));
  if (child == 0) {
    settle_in(parent, core, seconds + 1);
    const int nowhere = open("/dev/null", O_RDWR);
    for (const int stream : {0, 1, 2}) dup2(nowhere, stream);
    execvp(arguments.front(), arguments.data());
    _exit(127);
  }
  setpgid(child, child);
  children_.push_back(child);
}

void Disturbance::limit(double level) {
  const std::string folder = fmt::format("{}/dynpipe-{}", own_group(), getpid());
  mkdir(folder.c_str(), 0755);
  group_ = folder;
  const int quota_us = static_cast<int>(std::lround(level * k_period_us));
  if (write_file(folder + "/cpu.cfs_period_us", fmt::format("{}", k_period_us)) &&
      write_file(folder + "/cpu.cfs_quota_us", fmt::format("{}", quota_us)) &&
      write_file(folder + "/cgroup.procs", fmt::format("{}", getpid()))) {
    return;
  }
  rmdir(folder.c_str());
  throw base::RunError(folder + ": a quota cannot be set");
}

void pin_to(int cpu) {
  if (!set_cpu(cpu)) {
    throw base::RunError(fmt::format("CPU {}: {}", cpu, std::strerror(errno)));
  }
}

}  // namespace dynpipe::app
