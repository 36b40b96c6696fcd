#include "app/checkpoint_folder.hpp"

#include <fmt/format.h>

#include "base/errors.hpp"
#include "io/checkpoint.hpp"

namespace dynpipe::app {

CheckpointFolder::CheckpointFolder(const std::string& folder,
                                   const std::optional<ResumePoint>& resume)
    : folder_(folder), lock_(folder) {
  io::remove_leftovers(folder);
  const auto found = io::list_checkpoints(folder);
  if (found.empty()) return;
  const std::string newest = found.back().path.filename().string();
  if (!resume) {
    throw base::InputError("", "--checkpoint-dir",
                           fmt::format("{} holds checkpoints of a run, up to {}: --resume auto "
                                       "goes on from there; else give another folder",
                                       folder, newest));
  }
  if (found.back().update > resume->facts.update) {
    throw base::InputError("", "--checkpoint-dir",
                           fmt::format("{} holds {}, newer than {} that is resumed: give another "
                                       "folder, or remove what is newer",
                                       folder, newest, resume->path.string()));
  }
}

std::string CheckpointFolder::warning() const {
  if (lock_.locked()) return "";
  return fmt::format(
      "{}: its file system has no locks, so nothing keeps another run from writing "
      "there too",
      folder_);
}

}  // namespace dynpipe::app
