#include "probe/host_state.hpp"

#include <netdb.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

namespace dynpipe::probe {
namespace {

std::int64_t soft_limit(decltype(RLIMIT_NOFILE) resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  return static_cast<std::int64_t>(limit.rlim_cur);
}

std::int64_t free_shm_bytes() {
  struct statvfs facts {};
  if (statvfs("/dev/shm", &facts) != 0) return -1;
  return static_cast<std::int64_t>(facts.f_bavail) * static_cast<std::int64_t>(facts.f_frsize);
}

bool own_name_resolves() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return false;
  addrinfo* found = nullptr;
  if (getaddrinfo(name.data(), nullptr, nullptr, &found) != 0) return false;
  freeaddrinfo(found);
  return true;
}

std::vector<std::string> entries_of(const char* folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

HostState host_state() {
  std::error_code none;
  return {free_shm_bytes(),
          soft_limit(RLIMIT_NOFILE),
          soft_limit(RLIMIT_MEMLOCK),
          own_name_resolves(),
          std::filesystem::exists("/proc/driver/nvidia/version", none),
          entries_of("/sys/class/infiniband")};
}

double other_load(std::int64_t ticks, double ticks_per_s, double own_s, double seconds) {
  if (seconds <= 0 || ticks_per_s <= 0) return 0;
  return std::max(0.0, (static_cast<double>(ticks) / ticks_per_s - own_s) / seconds);
}

double own_cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double ticks_per_s() {
  return static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace dynpipe::probe
