#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dynpipe::probe {

/// The numbers of a list as Linux writes them ("0-3,8,10-11", perhaps with a line's end), in order;
/// none for an empty text, nothing for one that is no such list.
std::optional<std::vector<int>> parse_number_list(std::string_view text);

/// The list of these numbers, "0-3,8,10-11": sorted, each once.
std::string number_list(std::vector<int> numbers);

}  // namespace dynpipe::probe
