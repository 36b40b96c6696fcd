#include "app/option_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "app/text_file.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

namespace po = boost::program_options;
using base::InputError;

constexpr int k_style = po::command_line_style::unix_style &
                        ~po::command_line_style::allow_guessing &
                        ~po::command_line_style::allow_short;

/// Letters to change, insert, delete or swap with their neighbour to get from a to b (optimal
/// string alignment, row by row).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

std::vector<std::string> names_of(const po::options_description& options) {
  std::vector<std::string> names;
  for (const auto& option : options.options()) names.push_back(option->long_name());
  return names;
}

std::string explain(const po::error& error, const po::options_description& options) {
  const auto* unknown = dynamic_cast<const po::unknown_option*>(&error);
  if (unknown == nullptr) return error.what();
  const std::string name = unknown->get_option_name();
  const std::string bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  std::string hint = did_you_mean(bare, names_of(options));
  if (const auto quote = hint.find('\''); name != bare && quote != std::string::npos) {
    hint.insert(quote + 1, "--");
  }
  return fmt::format("unrecognised option '{}'{}", name, hint);
}

template <typename T>
bool add_text(const boost::any& value, std::string& text) {
  const auto* typed = boost::any_cast<T>(&value);
  if (typed != nullptr) text = fmt::format("{}", *typed);
  return typed != nullptr;
}

/// The first word that is no option's and more than `allowed`; for the message only.
std::string stray_word(const std::vector<std::string>& words,
                       const po::options_description& options, unsigned allowed) {
  const auto parsed =
      po::command_line_parser(words).options(options).style(k_style).allow_unregistered().run();
  for (const auto& option : parsed.options) {
    if (option.position_key >= static_cast<int>(allowed)) return option.value.front();
  }
  return "";
}

void store_config(const std::string& file, const po::options_description& options,
                  po::variables_map& values) {
  std::istringstream stream(read_text_file(file));
  try {
    const auto parsed = po::parse_config_file(stream, options);
    for (const auto& option : parsed.options) {
      if (option.string_key == "config" || option.string_key == "help") {
        throw InputError(file, option.string_key, "cannot stand in a file");
      }
    }
    po::store(parsed, values);
  } catch (const po::error& error) {
    throw InputError(file, "", explain(error, options));
  }
}

}  // namespace

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string* nearest = nullptr;
  std::size_t least = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t steps = distance(word, candidate);
    if (nearest == nullptr || steps < least) {
      nearest = &candidate;
      least = steps;
    }
  }
  if (nearest == nullptr || 3 * least > std::max(word.size(), nearest->size())) return "";
  return fmt::format(", did you mean '{}'?", *nearest);
}

OptionTexts texts_of(const po::variables_map& values) {
  OptionTexts texts;
  for (const auto& [name, value] : values) {
    std::string text;
    const boost::any& held = value.value();
    const bool known = add_text<std::string>(held, text) || add_text<bool>(held, text) ||
                       add_text<int>(held, text) || add_text<std::int64_t>(held, text) ||
                       add_text<double>(held, text);
    if (!known) throw std::logic_error(fmt::format("--{} has a type without a text", name));
    texts[name] = text;
  }
  return texts;
}

std::optional<po::variables_map> parse_words(const std::string& command,
                                             const std::vector<std::string>& words,
                                             const po::options_description& options,
                                             const po::positional_options_description& positional) {
  po::variables_map values;
  try {
    po::store(
        po::command_line_parser(words).options(options).positional(positional).style(k_style).run(),
        values);
    if (values.count("help") != 0) return std::nullopt;
    if (values.count("config") != 0) {
      store_config(values["config"].as<std::string>(), options, values);
    }
    po::notify(values);
  } catch (const po::too_many_positional_options_error&) {
    throw InputError(
        "", "",
        fmt::format("unexpected word '{}' (options begin with --); see dynpipe {} --help",
                    stray_word(words, options, positional.max_total_count()), command));
  } catch (const po::error& error) {
    throw InputError("", "",
                     fmt::format("{}; see dynpipe {} --help", explain(error, options), command));
  }
  return values;
}

std::vector<int> parse_counts(const std::string& text, const std::string& option) {
  std::vector<int> numbers;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) {
    std::size_t used = 0;
    int number = 0;
    try {
      number = std::stoi(word, &used);
    } catch (const std::exception&) {
      used = 0;
    }
    if (used == 0 || used != word.size() || number < 1) {
      throw InputError("", option, fmt::format("'{}' is not a list of counts such as 1,2,1", text));
    }
    numbers.push_back(number);
  }
  if (numbers.empty() || text.back() == ',') {
    throw InputError("", option, fmt::format("'{}' is not a list of counts such as 1,2,1", text));
  }
  return numbers;
}

}  // namespace dynpipe::app
