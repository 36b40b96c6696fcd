#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace dynpipe::testing {

/// A folder of its own, gone with this object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

void write_bytes(const std::filesystem::path& path, std::span<const std::uint8_t> bytes);
std::vector<std::uint8_t> bytes_of(const std::filesystem::path& path);

/// What the InputError thrown by `action` says; empty if it throws none.
std::string refusal_of(const std::function<void()>& action);
void expect_contains(const std::string& text, const std::string& part);

}  // namespace dynpipe::testing
