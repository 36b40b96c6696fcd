#include "io/folder_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "base/errors.hpp"
#include "base/utc.hpp"

namespace dynpipe::io {
namespace {

std::string reason_of(int error) {
  return std::generic_category().message(error);
}

/// "process 123 on node7, since 2025-06-30T12:00:00Z"
std::string self() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return fmt::format("process {} on {}, since {}", getpid(), host.data(), base::utc_now());
}

std::string text_of(int file) {
  std::array<char, 512> text{};
  const ssize_t got = pread(file, text.data(), text.size(), 0);
  std::string owner(text.data(), static_cast<std::size_t>(got > 0 ? got : 0));
  while (owner.ends_with('\n')) owner.pop_back();
  return owner.empty() ? "another process" : owner;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw base::InputError(folder.string(), "", "cannot be made: " + error.message());
  }
  const std::filesystem::path path = folder / "lock";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) {
    throw base::InputError(path.string(), "", "cannot be written: " + reason_of(errno));
  }
  if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    const int failure = errno;
    if (failure == EWOULDBLOCK) {
      const std::string owner = text_of(file_);
      ::close(file_);
      throw base::InputError(folder.string(), "",
                             fmt::format("is in use by another run: {}", owner));
    }
    locked_ = false;  // the file system knows no locks
  }
  const std::string text = self() + "\n";
  if (ftruncate(file_, 0) != 0 ||
      pwrite(file_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    const int failure = errno;
    ::close(file_);
    throw base::InputError(path.string(), "", "cannot be written: " + reason_of(failure));
  }
}

FolderLock::~FolderLock() {
  ::close(file_);
}

}  // namespace dynpipe::io
