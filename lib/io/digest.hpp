#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>

/// Checksums that find damage, not malice: XXH3 with 128 bits (xxHash), 32 lower-case hexadecimal
/// digits as `xxh128sum` prints them.
namespace dynpipe::io {

std::string digest_of(std::span<const std::byte> bytes);
/// Of all that a file holds. Throws InputError where it can't be read.
std::string digest_of_file(const std::filesystem::path& file);

/// What is known of the files of a folder, by name.
struct FileDigest {
  std::string digest;
  std::uint64_t bytes = 0;
};
using FileDigests = std::map<std::string, FileDigest>;

/// Name of the file that keeps them: `xxh128sum --check digests.xxh128` reads it too.
constexpr const char* k_digests_file = "digests.xxh128";

/// Its text: a comment with each file's size, then "DIGEST  NAME" lines.
std::string to_text(const FileDigests& digests);
/// Throws InputError naming `file` and the line that is wrong. Names are those of files in one
/// folder, never paths.
FileDigests parse_digests(const std::string& text, const std::string& file);

/// Throws InputError naming the file that is missing, of another size, or damaged.
void check_file(const std::filesystem::path& folder, const std::string& name,
                const FileDigest& expected);

}  // namespace dynpipe::io
