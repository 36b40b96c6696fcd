#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.hpp"
#include "model/profile.hpp"

namespace dynpipe::app {

/// Where measured profiles are kept from run to run: one file for each set of circumstances that a
/// measurement depends on.
class ProfileCache {
 public:
  /// `circumstances`: texts; two measurements whose texts are the same stand for each other. The
  /// file lies in $XDG_CACHE_HOME/dynpipe, or else ~/.cache/dynpipe; without either nothing is
  /// kept.
  ProfileCache(const model::Model& model, const std::vector<std::string>& circumstances);

  /// Empty: none is kept.
  const std::string& file() const { return file_; }
  /// What was kept; empty where nothing was. A file that cannot be used counts as none: `problem`
  /// then says why.
  std::optional<model::Profile> read(std::string& problem) const;
  /// Keeps a profile. Returns what prevented it, or nothing.
  std::string keep(const model::Profile& profile) const;

 private:
  const model::Model& model_;
  std::string file_;
};

}  // namespace dynpipe::app
