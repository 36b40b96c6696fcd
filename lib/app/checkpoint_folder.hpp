#pragma once

#include <optional>
#include <string>

#include "app/resume.hpp"
#include "io/folder_lock.hpp"

namespace dynpipe::app {

/// The folder of a run's checkpoints, its own for as long as this object lives.
class CheckpointFolder {
 public:
  /// Removes what killed runs left half done. Throws InputError where another run is writing there,
  /// or where this one's checkpoints would stand beside those of a run that it does not go on with,
  /// or newer ones than it goes on from.
  CheckpointFolder(const std::string& folder, const std::optional<ResumePoint>& resume);

  /// What the user should know; empty: nothing.
  std::string warning() const;

 private:
  std::string folder_;
  io::FolderLock lock_;
};

}  // namespace dynpipe::app
