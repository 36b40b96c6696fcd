#include "io/digest.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <sstream>
#include <system_error>
#include <vector>

#include "base/errors.hpp"

namespace dynpipe::io {
namespace {

using base::InputError;
namespace fs = std::filesystem;

std::string hexadecimal(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

bool is_digest(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool is_plain_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name.front() != '.';
}

/// The size in "# 1234 bytes: NAME"; an empty name where the line says something else.
std::pair<std::string, std::uint64_t> size_in(const std::string& line) {
  constexpr std::string_view k_unit = " bytes: ";
  const std::size_t unit = line.find(k_unit);
  if (!line.starts_with("# ") || unit == std::string::npos) return {};
  std::uint64_t bytes = 0;
  const char* const end = line.data() + unit;
  const auto read = std::from_chars(line.data() + 2, end, bytes);
  if (read.ec != std::errc() || read.ptr != end) return {};
  return {line.substr(unit + k_unit.size()), bytes};
}

}  // namespace

std::string digest_of(std::span<const std::byte> bytes) {
  return hexadecimal(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string digest_of_file(const fs::path& file) {
  const auto fail = [&](int error) {
    throw InputError(file.string(), "",
                     fmt::format("cannot be read: {}", std::generic_category().message(error)));
  };
  const std::unique_ptr<std::FILE, CloseFile> stream(std::fopen(file.c_str(), "rb"));
  if (!stream) fail(errno);
  std::setvbuf(stream.get(), nullptr, _IONBF, 0);
  posix_fadvise(fileno(stream.get()), 0, 0, POSIX_FADV_SEQUENTIAL);
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  XXH3_128bits_reset(state.get());
  std::vector<char> part(std::size_t{1} << 20U);
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), stream.get())) {
    XXH3_128bits_update(state.get(), part.data(), got);
  }
  if (std::ferror(stream.get()) != 0) fail(errno);
  return hexadecimal(XXH3_128bits_digest(state.get()));
}

std::string to_text(const FileDigests& digests) {
  std::string text;
  for (const auto& [name, file] : digests) {
    text += fmt::format("# {} bytes: {}\n", file.bytes, name);
  }
  for (const auto& [name, file] : digests) text += fmt::format("{}  {}\n", file.digest, name);
  return text;
}

FileDigests parse_digests(const std::string& text, const std::string& file) {
  std::map<std::string, std::uint64_t> sizes;
  FileDigests digests;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const auto refuse = [&](const std::string& why) {
      throw InputError(file, fmt::format("line {}", number), why);
    };
    // getline also ends at the end of a text that was cut off.
    if (lines.eof()) refuse("is cut off");
    if (line.starts_with('#')) {
      const auto [name, bytes] = size_in(line);
      if (!is_plain_name(name)) refuse("is no size of a file");
      if (!sizes.emplace(name, bytes).second) refuse("repeats a file");
      continue;
    }
    const std::string digest = line.substr(0, line.find(' '));
    const std::string name = line.size() > 34 ? line.substr(34) : "";
    if (!is_digest(digest) || line.substr(32, 2) != "  " || !is_plain_name(name)) {
      refuse("is no digest and name of a file");
    }
    const auto size = sizes.find(name);
    if (size == sizes.end()) refuse("names a file without a size");
    if (!digests.emplace(name, FileDigest{digest, size->second}).second) refuse("repeats a file");
  }
  if (digests.empty()) throw InputError(file, "", "names no files");
  if (digests.size() != sizes.size()) throw InputError(file, "", "has sizes without digests");
  return digests;
}

void check_file(const fs::path& folder, const std::string& name, const FileDigest& expected) {
  const fs::path file = folder / name;
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(file, error);
  if (error) {
    throw InputError(file.string(), "", fmt::format("cannot be read: {}", error.message()));
  }
  if (bytes != expected.bytes) {
    throw InputError(
        file.string(), "",
        fmt::format("is damaged: it has {} bytes, {} were written", bytes, expected.bytes));
  }
  if (digest_of_file(file) != expected.digest) {
    throw InputError(file.string(), "", "is damaged: its content is not what was written");
  }
}

}  // namespace dynpipe::io
