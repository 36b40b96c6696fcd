#pragma once

#include <string>

#include "comm/world.hpp"

namespace dynpipe::app {

/// "No such file or directory": what the system says of an error number.
std::string system_reason(int error_number);

/// All that a file holds. Throws InputError naming the file and the system's reason.
std::string read_text_file(const std::string& file);

/// A file's text on all ranks, read by rank 0. Collective. Throws AgreedError, also for an empty
/// file.
std::string shared_text(const std::string& file, comm::World& world);

/// Puts `text` in place of what the file held; whoever looks meanwhile, or after a crash, finds one
/// or the other, never a part. (What is no regular file, such as a pipe, is written to as it is.)
/// Throws InputError naming the file and the system's reason.
void replace_text_file(const std::string& file, const std::string& text);

}  // namespace dynpipe::app
