#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "probe/text_file.hpp"

namespace dynpipe::probe {

/// A limit that a control group sets, and the group's folder.
template <typename Value>
struct GroupLimit {
  Value value{};
  std::string folder;
};

/// What the control groups of this process allow it together with all else in them; nothing where
/// they do not limit. Version 1 and version 2 (`man 7 cgroups`), and hosts that mount both.
struct GroupLimits {
  std::optional<GroupLimit<double>> cores;               ///< CPU seconds a second
  std::optional<GroupLimit<std::int64_t>> memory_bytes;  ///< memory, without swap
};

/// The tightest limits from this process's groups up to the roots, from /proc/self/cgroup,
/// /proc/self/mountinfo and the groups' own files.
GroupLimits group_limits(const ReadText& read);

/// The files cpu.stat, which tell of throttling, of this process's groups up to the roots, where
/// there are any.
std::vector<std::string> group_cpu_stats(const ReadText& read);

/// A line of /proc/self/cgroup: "4:memory:/slurm/job_7", "0::/user.slice".
struct GroupMembership {
  std::vector<std::string> controllers;  ///< none: version 2
  std::string path;
};
std::vector<GroupMembership> parse_memberships(std::string_view text);

/// A mounted hierarchy of groups, from /proc/self/mountinfo.
struct GroupMount {
  bool version_2 = false;
  std::vector<std::string> options;  ///< version 1: its controllers are among them
  std::string root;                  ///< the group that is seen at `point`
  std::string point;
};
std::vector<GroupMount> parse_group_mounts(std::string_view text);

/// Cores that "150000 100000" (cpu.max: quota and period in us) allows; nothing for "max 100000".
std::optional<double> parse_cpu_max(std::string_view text);
/// Bytes that memory.max or memory.limit_in_bytes allows; nothing for "max" and for the huge number
/// that stands for it in version 1.
std::optional<std::int64_t> parse_memory_limit(std::string_view text);

}  // namespace dynpipe::probe
