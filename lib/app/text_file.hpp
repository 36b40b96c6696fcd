#pragma once

#include <string>

namespace dynpipe::app {

/// "No such file or directory": what the system says of an error number.
std::string system_reason(int error_number);

/// All that a file holds. Throws InputError naming the file and the system's reason.
std::string read_text_file(const std::string& file);

/// Puts `text` in place of what the file held; whoever looks meanwhile, or after a crash, finds one
/// or the other, never a part. (What is no regular file, such as a pipe, is written to as it is.)
/// Throws InputError naming the file and the system's reason.
void replace_text_file(const std::string& file, const std::string& text);

}  // namespace dynpipe::app
