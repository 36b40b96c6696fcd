#pragma once

#include <filesystem>
#include <string>

/// What survives a crash of the machine, not only of the program. All throw RunError naming the
/// file and the system's reason.
namespace dynpipe::io {

/// Until a file's content has reached the disk.
void sync_file(const std::filesystem::path& file);
/// Lets what was written of a file so far be on its way to the disk, without waiting for it.
void start_sync(const std::filesystem::path& file);
/// Until the names in a folder have.
void sync_folder(const std::filesystem::path& folder);
/// Writes a file and syncs it.
void write_durably(const std::filesystem::path& file, const std::string& text);

}  // namespace dynpipe::io
