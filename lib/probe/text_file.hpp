#pragma once

#include <functional>
#include <optional>
#include <string>

namespace dynpipe::probe {

/// How the files of /proc and /sys are read: the text at a path, or nothing where there is none.
/// Tests inject the texts of other machines.
using ReadText = std::function<std::optional<std::string>(const std::string& path)>;

/// From this machine.
std::optional<std::string> read_text(const std::string& path);

}  // namespace dynpipe::probe
