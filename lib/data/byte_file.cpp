#include "data/byte_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/errors.hpp"

namespace dynpipe::data {
namespace {

/// What deflate can make of one byte at most (zlib's "Technical Details": 1032:1).
constexpr std::uint64_t k_most_expansion = 1032;
constexpr unsigned k_buffer_bytes = 1U << 17U;
/// gzread counts in int, so a long read is made of pieces.
constexpr std::size_t k_piece_bytes = std::size_t{1} << 24U;

std::uint64_t size_of_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    throw base::InputError(path.string(), "file", "does not exist");
  }
  if (!std::filesystem::is_regular_file(status)) {
    throw base::InputError(path.string(), "file", "is not a regular file");
  }
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (error) throw base::InputError(path.string(), "file", error.message());
  return size;
}

}  // namespace

void ByteFile::Close::operator()(gzFile_s* file) const {
  gzclose_r(file);
}

ByteFile::ByteFile(const std::filesystem::path& path)
    : name_(path.string()), size_bytes_(size_of_file(path)), file_(gzopen(name_.c_str(), "rb")) {
  if (!file_) {
    throw base::InputError(name_, "file",
                           "cannot be opened: " + std::generic_category().message(errno));
  }
  gzbuffer(file_.get(), k_buffer_bytes);
}

std::uint64_t ByteFile::most_bytes_left() const {
  const bool plain = gzdirect(file_.get()) != 0;
  const std::uint64_t most = plain ? size_bytes_ : size_bytes_ * k_most_expansion;
  return most - std::min(most, static_cast<std::uint64_t>(gztell(file_.get())));
}

std::size_t ByteFile::read(std::span<std::uint8_t> bytes) {
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const std::size_t wanted = std::min(bytes.size() - filled, k_piece_bytes);
    const int got = gzread(file_.get(), bytes.data() + filled, static_cast<unsigned>(wanted));
    if (got > 0) filled += static_cast<std::size_t>(got);
    if (got == static_cast<int>(wanted)) continue;

    int code = Z_OK;
    const char* reason = gzerror(file_.get(), &code);
    if (code == Z_BUF_ERROR) {
      throw base::InputError(name_, "compressed data", "breaks off: the file is truncated");
    }
    if (code == Z_ERRNO) {
      throw base::InputError(name_, "file",
                             "cannot be read: " + std::generic_category().message(errno));
    }
    if (code != Z_OK && code != Z_STREAM_END) {
      throw base::InputError(name_, "compressed data", std::string("is damaged: ") + reason);
    }
    break;
  }
  return filled;
}

}  // namespace dynpipe::data
