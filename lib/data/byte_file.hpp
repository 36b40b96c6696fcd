#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

// zlib's file handle, named here so that its header stays out of this one.
struct gzFile_s;

namespace dynpipe::data {

/// Reads a file from front to back, plain or compressed by gzip; which of the two, its first bytes
/// say. Every failure is an InputError that names the file.
class ByteFile {
 public:
  explicit ByteFile(const std::filesystem::path& path);

  const std::string& name() const { return name_; }
  /// Size on disk.
  std::uint64_t size_bytes() const { return size_bytes_; }
  /// No more bytes than this can still come out of the file.
  std::uint64_t most_bytes_left() const;
  /// Fills `bytes` from the front and returns how many it got: all of them unless the file ends.
  /// Throws InputError if the compressed data is damaged or breaks off.
  std::size_t read(std::span<std::uint8_t> bytes);

 private:
  struct Close {
    void operator()(gzFile_s* file) const;
  };
  std::string name_;
  std::uint64_t size_bytes_;
  std::unique_ptr<gzFile_s, Close> file_;
};

}  // namespace dynpipe::data
