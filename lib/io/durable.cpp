#include "io/durable.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "base/errors.hpp"

namespace dynpipe::io {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, int error) {
  throw base::RunError(fmt::format("{}: cannot be written: {}", file.string(),
                                   std::generic_category().message(error)));
}

/// An open file of the system, closed with its owner.
class Descriptor {
 public:
  Descriptor(const std::filesystem::path& file, int flags)
      : file_(file), number_(::open(file.c_str(), flags | O_CLOEXEC, 0666)) {
    if (number_ < 0) fail(file_, errno);
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void write(const std::string& text) const {
    std::size_t done = 0;
    while (done < text.size()) {
      const ssize_t put = ::write(number_, text.data() + done, text.size() - done);
      if (put < 0 && errno != EINTR) fail(file_, errno);
      if (put > 0) done += static_cast<std::size_t>(put);
    }
  }

  void sync() const {
    // Some file systems have no such thing for folders.
    if (::fsync(number_) != 0 && errno != EINVAL) fail(file_, errno);
  }

  void start_sync() const {
    // Only a head start: where there is no such thing, `sync` does it all.
    sync_file_range(number_, 0, 0, SYNC_FILE_RANGE_WRITE);
  }

  void close() {
    const int number = number_;
    number_ = -1;
    if (::close(number) != 0) fail(file_, errno);
  }

 private:
  const std::filesystem::path& file_;
  int number_;
};

}  // namespace

void sync_file(const std::filesystem::path& file) {
  Descriptor open(file, O_RDONLY);
  open.sync();
}

void start_sync(const std::filesystem::path& file) {
  Descriptor open(file, O_RDONLY);
  open.start_sync();
}

void sync_folder(const std::filesystem::path& folder) {
  Descriptor open(folder, O_RDONLY | O_DIRECTORY);
  open.sync();
}

void write_durably(const std::filesystem::path& file, const std::string& text) {
  Descriptor open(file, O_WRONLY | O_CREAT | O_TRUNC);
  open.write(text);
  open.sync();
  open.close();
}

}  // namespace dynpipe::io
