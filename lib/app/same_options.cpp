#include "app/same_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

/// What each rank may have its own of: the words of a file count, not its name.
constexpr std::array k_own{"config", "threads"};

std::string described(const OptionTexts& options, const std::string& name) {
  const auto found = options.find(name);
  if (found == options.end()) return "not given";
  return found->second.empty() ? "given" : fmt::format("'{}'", found->second);
}

std::string to_json(OptionTexts options) {
  for (const char* name : k_own) options.erase(name);
  const auto bad_bytes = nlohmann::json::error_handler_t::replace;
  return nlohmann::json(options).dump(-1, ' ', false, bad_bytes);
}

/// The first name that two lists disagree on, or ""; --help, which has no others beside it, above
/// all.
std::string first_difference(const OptionTexts& a, const OptionTexts& b) {
  if (a.contains("help") != b.contains("help")) return "help";
  const auto [at_a, at_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (at_a == a.end()) return at_b == b.end() ? "" : at_b->first;
  return at_b == b.end() ? at_a->first : std::min(at_a->first, at_b->first);
}

}  // namespace

void require_same_options(const OptionTexts& own, comm::World& world) {
  const std::vector<std::string> all = world.gather(to_json(own));
  world.together([&] {
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank] == all[0]) continue;
      const auto leaders = nlohmann::json::parse(all[0]).get<OptionTexts>();
      const auto theirs = nlohmann::json::parse(all[rank]).get<OptionTexts>();
      const std::string name = first_difference(leaders, theirs);
      throw base::InputError(
          "", fmt::format("--{}", name),
          fmt::format("is {} on rank 0 but {} on rank {}; all ranks need the same options",
                      described(leaders, name), described(theirs, name), rank));
    }
  });
}

}  // namespace dynpipe::app
