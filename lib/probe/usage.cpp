#include "probe/usage.hpp"

#include <array>
#include <sstream>
#include <string>

namespace dynpipe::probe {
namespace {

/// The number of kB in the line that starts with `key` ("MemTotal:"), in bytes.
std::optional<std::int64_t> kilobytes_of(std::string_view text, std::string_view key) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    std::istringstream value(line.substr(key.size()));
    std::int64_t kilobytes = 0;
    if (!(value >> kilobytes)) return std::nullopt;
    return kilobytes * 1024;
  }
  return std::nullopt;
}

}  // namespace

std::optional<HostMemory> parse_meminfo(std::string_view text) {
  const auto total = kilobytes_of(text, "MemTotal:");
  const auto available = kilobytes_of(text, "MemAvailable:");
  if (!total || !available) return std::nullopt;
  return HostMemory{*total, *available};
}

ProcessMemory parse_status(std::string_view text) {
  return {kilobytes_of(text, "VmRSS:").value_or(0), kilobytes_of(text, "VmHWM:").value_or(0)};
}

std::optional<CpuTicks> parse_cpu_ticks(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::string name;
  // user nice system idle iowait irq softirq steal
  std::array<std::int64_t, 8> ticks{};
  stream >> name;
  for (std::int64_t& value : ticks) stream >> value;
  if (!stream || name != "cpu") return std::nullopt;
  return CpuTicks{ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6], ticks[7]};
}

}  // namespace dynpipe::probe
