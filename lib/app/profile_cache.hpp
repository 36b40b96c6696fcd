#pragma once

#include <functional>
#include <optional>
#include <string>

#include "app/measured_profile.hpp"

namespace dynpipe::app {

/// Where profiles are kept from one run to the next.
class ProfileCache {
 public:
  /// In `folder`. Nothing is kept where it is empty.
  explicit ProfileCache(std::string folder) : folder_(std::move(folder)) {}
  /// $XDG_CACHE_HOME/dynpipe, else ~/.cache/dynpipe; empty where neither is known.
  static std::string default_folder();

  /// What the key is made from: everything that a profile depends on.
  struct Key {
    std::string model_text;
    std::string device, build;
    std::int64_t batch = 0;
    std::vector<std::int64_t> samples;
    int ranks = 1, ranks_a_host = 1;
    std::string rest;  ///< optimizer, stages, data
  };
  /// The file of this key, named after the model and a hash; empty where nothing is kept.
  std::string file(const Key& key, const std::string& model_name) const;

  /// The profile kept under this key; nothing where there is none. Where the file cannot be read
  /// or is damaged, or another's, `warn` is told and nothing returned.
  std::optional<model::Profile> find(const Key& key, const model::Model& model,
                                     const std::function<void(const std::string&)>& warn) const;
  /// Keeps it, whole or not at all. Where that cannot be, `warn` is told.
  void keep(const Key& key, const model::Profile& profile,
            const std::function<void(const std::string&)>& warn) const;

 private:
  std::string folder_;
};

/// The profile of this request from the cache, else measured and kept. Collective; rank 0 alone
/// reads and writes, all have the same. `refresh`: measure it in any case. `warn` is called on rank
/// 0.
model::Profile cached_profile(const ProfileRequest& request, const std::string& model_text,
                              comm::World& world, const ProfileCache& cache, bool refresh,
                              const std::function<void(const std::string&)>& warn,
                              const std::function<void(const ProfileProgress&)>& progress = {});

}  // namespace dynpipe::app
