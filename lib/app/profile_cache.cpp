#include "app/profile_cache.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "app/text_file.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

/// FNV-1a, 64 bits; texts of different lengths do not run into each other.
std::uint64_t digest_of(const std::vector<std::string>& texts) {
  std::uint64_t digest = 0xcbf29ce484222325;
  const auto add = [&](unsigned char byte) { digest = (digest ^ byte) * 0x100000001b3; };
  for (const std::string& text : texts) {
    for (const char character : text) add(static_cast<unsigned char>(character));
    add(0);
  }
  return digest;
}

std::string cache_folder() {
  const char* given = std::getenv("XDG_CACHE_HOME");
  if (given != nullptr && *given != '\0') return fmt::format("{}/dynpipe", given);
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') return fmt::format("{}/.cache/dynpipe", home);
  return "";
}

}  // namespace

ProfileCache::ProfileCache(const model::Model& model, const std::vector<std::string>& circumstances)
    : model_(model) {
  const std::string folder = cache_folder();
  if (folder.empty()) return;
  std::string name = model.name;
  for (char& c : name) {
    if (c == '/' || c == '\0') c = '_';
  }
  file_ = fmt::format("{}/profile-{}-{:016x}.json", folder, name, digest_of(circumstances));
}

std::optional<model::Profile> ProfileCache::read(std::string& problem) const {
  std::error_code unknown;
  if (file_.empty() || !std::filesystem::exists(file_, unknown)) return std::nullopt;
  try {
    return model::parse_profile(read_text_file(file_), file_, model_);
  } catch (const base::Error& unusable) {
    problem = unusable.what();
    return std::nullopt;
  }
}

std::string ProfileCache::keep(const model::Profile& profile) const {
  if (file_.empty()) return "neither XDG_CACHE_HOME nor HOME is set";
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(file_).parent_path(), failed);
  try {
    replace_text_file(file_, model::to_json(profile));
  } catch (const base::Error& problem) {
    return problem.what();
  }
  return "";
}

}  // namespace dynpipe::app
