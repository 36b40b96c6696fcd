#include "probe/cgroup.hpp"

#include <algorithm>
#include <sstream>

namespace dynpipe::probe {
namespace {

/// Beyond any memory there is: version 1 writes "no limit" as the largest multiple of a page.
constexpr std::int64_t k_no_memory_limit = std::int64_t{1} << 60;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool has(const std::vector<std::string>& list, const std::string& word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  std::istringstream stream{std::string(text)};
  Number number{};
  if (!(stream >> number)) return std::nullopt;
  return number;
}

/// The folders of a process's group and of those around it, the innermost first. A path that lies
/// outside what is mounted (containers) leaves the mount's own root.
std::vector<std::string> folders(const GroupMount& mount, const std::string& path) {
  std::string below = path;
  if (mount.root != "/") {
    const bool inside = path == mount.root || path.starts_with(mount.root + "/");
    below = inside ? path.substr(mount.root.size()) : "";
  }
  std::vector<std::string> found;
  while (!below.empty() && below != "/") {
    found.push_back(mount.point + below);
    below = below.substr(0, below.find_last_of('/'));
  }
  found.push_back(mount.point);
  return found;
}

template <typename Value>
void tighten(std::optional<GroupLimit<Value>>& limit, std::optional<Value> found,
             const std::string& folder) {
  if (found && (!limit || *found < limit->value)) limit = {*found, folder};
}

std::optional<double> cpu_quota(const ReadText& read, const std::string& folder) {
  const auto quota = read(folder + "/cpu.cfs_quota_us");
  const auto period = read(folder + "/cpu.cfs_period_us");
  return quota && period ? parse_cpu_max(*quota + " " + *period) : std::nullopt;
}

void read_folder(const ReadText& read, const GroupMount& mount, const std::string& folder,
                 GroupLimits& limits) {
  if (mount.version_2) {
    if (const auto text = read(folder + "/cpu.max")) {
      tighten(limits.cores, parse_cpu_max(*text), folder);
    }
    if (const auto text = read(folder + "/memory.max")) {
      tighten(limits.memory_bytes, parse_memory_limit(*text), folder);
    }
    return;
  }
  if (has(mount.options, "cpu")) tighten(limits.cores, cpu_quota(read, folder), folder);
  if (has(mount.options, "memory")) {
    if (const auto text = read(folder + "/memory.limit_in_bytes")) {
      tighten(limits.memory_bytes, parse_memory_limit(*text), folder);
    }
  }
}

bool belongs(const GroupMembership& membership, const GroupMount& mount) {
  if (mount.version_2) return membership.controllers.empty();
  return std::any_of(membership.controllers.begin(), membership.controllers.end(),
                     [&](const std::string& name) { return has(mount.options, name); });
}

/// Each mounted group that the process is in, with those around it.
template <typename Visit>
void visit_folders(const ReadText& read, const Visit& visit) {
  const auto memberships = parse_memberships(read("/proc/self/cgroup").value_or(""));
  for (const GroupMount& mount : parse_group_mounts(read("/proc/self/mountinfo").value_or(""))) {
    for (const GroupMembership& membership : memberships) {
      if (!belongs(membership, mount)) continue;
      for (const std::string& folder : folders(mount, membership.path)) visit(mount, folder);
    }
  }
}

}  // namespace

GroupLimits group_limits(const ReadText& read) {
  GroupLimits limits;
  visit_folders(read, [&](const GroupMount& mount, const std::string& folder) {
    read_folder(read, mount, folder, limits);
  });
  return limits;
}

std::vector<std::string> group_cpu_stats(const ReadText& read) {
  std::vector<std::string> files;
  visit_folders(read, [&](const GroupMount& mount, const std::string& folder) {
    if (!mount.version_2 && !has(mount.options, "cpu")) return;
    const std::string file = folder + "/cpu.stat";
    if (!has(files, file) && read(file)) files.push_back(file);
  });
  return files;
}

std::vector<GroupMembership> parse_memberships(std::string_view text) {
  std::vector<GroupMembership> memberships;
  for (const std::string& line : split(std::string(text), '\n')) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    memberships.push_back(
        {split(line.substr(first + 1, second - first - 1), ','), line.substr(second + 1)});
  }
  return memberships;
}

std::vector<GroupMount> parse_group_mounts(std::string_view text) {
  std::vector<GroupMount> mounts;
  for (const std::string& line : split(std::string(text), '\n')) {
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    const std::vector<std::string> before = split(line.substr(0, dash), ' ');
    const std::vector<std::string> after = split(line.substr(dash + 3), ' ');
    if (before.size() < 5 || after.size() < 3) continue;
    if (after[0] != "cgroup" && after[0] != "cgroup2") continue;
    mounts.push_back({after[0] == "cgroup2", split(after[2], ','), before[3], before[4]});
  }
  return mounts;
}

std::optional<double> parse_cpu_max(std::string_view text) {
  std::istringstream stream{std::string(text)};
  double quota = 0;
  double period = 0;
  if (!(stream >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

std::optional<std::int64_t> parse_memory_limit(std::string_view text) {
  const auto bytes = number_in<std::int64_t>(text);
  return bytes && *bytes < k_no_memory_limit ? bytes : std::nullopt;
}

}  // namespace dynpipe::probe
