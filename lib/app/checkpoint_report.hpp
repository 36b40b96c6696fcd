#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <vector>

namespace dynpipe::app {

/// What `dynpipe checkpoint ls`, `show` and `verify` were asked to tell.
struct CheckpointReportOptions {
  std::string place;  ///< a checkpoint, or a folder of them
  std::string part;   ///< show: "plan", "config" or "progress"; empty: all, for people
};

/// Texts of --help; `command`: "ls", "show" or "verify".
std::string checkpoint_report_help(const std::string& command);
/// Reads the words after the command. Empty if --help was asked for. Throws InputError naming the
/// option.
std::optional<CheckpointReportOptions> parse_checkpoint_report_options(
    const std::string& command, const std::vector<std::string>& words);

/// A table of the checkpoints in a folder, the oldest first: what they are of, and whether they are
/// complete, by the index and the files' sizes alone. `now`: for their age. Throws InputError where
/// there is no such folder.
std::string describe_checkpoints(const std::string& folder, std::time_t now);

/// What a checkpoint says of itself: stages, versions, tensors, evaluations, options; of a folder
/// of checkpoints, the newest. Throws InputError for what is none or is damaged.
std::string describe_checkpoint(const CheckpointReportOptions& options);

/// What was found of checkpoints that were read in full.
struct Verification {
  std::string text;     ///< a line each, and one for each problem
  std::string problem;  ///< which are damaged, in a few words; empty: none
};
/// Reads a checkpoint, or all in a folder, and compares every checksum. Throws InputError where
/// there are none.
Verification verify_checkpoints(const std::string& place);

}  // namespace dynpipe::app
