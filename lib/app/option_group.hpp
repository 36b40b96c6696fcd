#pragma once

#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <optional>
#include <string>
#include <type_traits>

namespace dynpipe::app {

using OptionGroup = boost::program_options::options_description;

/// Adds `--name METAVAR` to a group of --help. What `value` holds is the default, and said to be;
/// an empty string says nothing. `value` outlives the parsing, which writes to it.
template <typename T>
void option(OptionGroup& group, const char* name, T* value, const char* metavar, const char* text) {
  auto* semantic = boost::program_options::value(value)->value_name(metavar);
  bool has_default = true;
  if constexpr (std::is_same_v<T, std::string>) has_default = !value->empty();
  if (has_default) semantic->default_value(*value, fmt::format("{}", *value));
  group.add_options()(name, semantic, text);
}

/// The same for an option without a default: `value` stays empty unless it is given.
template <typename T>
void option(OptionGroup& group, const char* name, std::optional<T>* value, const char* metavar,
            const char* text) {
  auto* semantic = boost::program_options::value<T>()->value_name(metavar);
  semantic->notifier([value](const T& given) { *value = given; });
  group.add_options()(name, semantic, text);
}

/// Adds `--name`, which takes no value and sets `value`.
inline void flag(OptionGroup& group, const char* name, bool* value, const char* text) {
  group.add_options()(name, boost::program_options::bool_switch(value), text);
}

}  // namespace dynpipe::app
