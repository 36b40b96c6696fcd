#pragma once

#include <filesystem>
#include <string>

namespace dynpipe::io {

/// A folder that this process alone writes into, until this object or the process is gone, however
/// it ends. Kept by a lock (flock) on a file `lock` in it, which names host, process and time.
class FolderLock {
 public:
  /// Makes the folder if there is none. Throws InputError naming the folder where another process
  /// has it (and which), or where nothing can be written into it.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// False where the file system has no locks: then nothing keeps others out.
  bool locked() const { return locked_; }

 private:
  int file_ = -1;
  bool locked_ = true;
};

}  // namespace dynpipe::io
