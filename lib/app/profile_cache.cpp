#include "app/profile_cache.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>

#include "app/text_file.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

namespace fs = std::filesystem;

/// FNV-1a (Fowler, Noll, Vo), 64 bits.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3U;
  }
  return hash;
}

std::string text_of(const ProfileCache::Key& key) {
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{} {}\n{}", key.device, key.build, key.batch,
                     fmt::join(key.samples, ","), key.rest, key.ranks, key.ranks_a_host,
                     key.model_text);
}

bool is_of(const model::Profile& profile, const ProfileCache::Key& key) {
  return profile.device == key.device && profile.build == key.build && profile.batch == key.batch &&
         profile.samples == key.samples;
}

}  // namespace

std::string ProfileCache::default_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/') {
    return std::string(cache) + "/dynpipe";
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    return std::string(home) + "/.cache/dynpipe";
  }
  return {};
}

std::string ProfileCache::file(const Key& key, const std::string& model_name) const {
  if (folder_.empty()) return {};
  return fmt::format("{}/{}-{:016x}.json", folder_, model_name, hash_of(text_of(key)));
}

std::optional<model::Profile> ProfileCache::find(
    const Key& key, const model::Model& model,
    const std::function<void(const std::string&)>& warn) const {
  const std::string path = file(key, model.name);
  std::error_code error;
  if (path.empty() || !fs::exists(path, error)) return std::nullopt;
  try {
    model::Profile profile = model::parse_profile(read_text_file(path), path, model);
    if (is_of(profile, key)) return profile;
    warn(fmt::format("{} is another profile than its name says: it is measured again", path));
  } catch (const base::Error& damage) {
    warn(fmt::format("{}: it is measured again", damage.what()));
  }
  return std::nullopt;
}

void ProfileCache::keep(const Key& key, const model::Profile& profile,
                        const std::function<void(const std::string&)>& warn) const {
  const std::string path = file(key, profile.model);
  if (path.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  try {
    replace_text_file(path, model::to_json(profile));
  } catch (const base::Error& failure) {
    warn(fmt::format("the profile is not kept: {}", failure.what()));
  }
}

model::Profile cached_profile(const ProfileRequest& request, const std::string& model_text,
                              comm::World& world, const ProfileCache& cache, bool refresh,
                              const std::function<void(const std::string&)>& warn,
                              const std::function<void(const ProfileProgress&)>& progress) {
  const TrainOptions& options = request.options;
  const ProfileCache::Key key{
      model_text,
      profile_device(profile_threads(options, world)),
      profile_build(options),
      options.batch,
      request.samples,
      world.size(),
      world.local_size(),
      fmt::format("{} {} {} {}", nn::name_of(options.optimizer.kind), options.optimizer.states(),
                  options.stages.value_or(world.size()), request.write_input ? options.data : "")};
  std::string text;
  if (world.rank() == 0 && !refresh) {
    if (const auto found = cache.find(key, request.model, warn)) text = model::to_json(*found);
  }
  text = world.broadcast(text);
  if (text.empty()) {
    const model::Profile measured = measure_profile(request, world, progress).profile;
    if (world.rank() == 0) {
      cache.keep(key, measured, warn);
      text = model::to_json(measured);
    }
    text = world.broadcast(text);
  }
  return model::parse_profile(text, "profile", request.model);
}

}  // namespace dynpipe::app
