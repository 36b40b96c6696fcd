#pragma once

#include <boost/program_options.hpp>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dynpipe::app {

/// ", did you mean 'word'?" for the candidate nearest to `word`, if one is near enough (a third of
/// its letters may be wrong, missing, too many or swapped), else "".
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

/// Options by name, their values as text: what the command line, the file and the defaults came to.
using OptionTexts = std::map<std::string, std::string>;
OptionTexts texts_of(const boost::program_options::variables_map& values);

/// Reads a command's words: long options, in full, and such positional words as `positional` names
/// (a description without a name's limit takes them all). `command` names it in messages
/// ("train"). Where the description has `--config FILE`, options are read from that file too (INI:
/// `option = value` a line; the command line wins). Empty if --help was asked for. Throws
/// InputError naming option and file, with the nearest option for an unknown one.
std::optional<boost::program_options::variables_map> parse_words(
    const std::string& command, const std::vector<std::string>& words,
    const boost::program_options::options_description& options,
    const boost::program_options::positional_options_description& positional = {});

/// "1,2,1": numbers of at least 1 with commas between them. Throws InputError naming `option`.
std::vector<int> parse_counts(const std::string& text, const std::string& option);

}  // namespace dynpipe::app
