#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/errors.hpp"
#include "model/object_reader.hpp"

namespace dynpipe::model {
namespace {

using nlohmann::json;

/// Deeper nesting has no use, and recursion over the value would exhaust the stack.
constexpr int k_max_depth = 64;

/// Watches the parser for what it would let pass: endless nesting, and keys given twice, of which
/// it keeps the last.
class StructureGuard {
 public:
  explicit StructureGuard(const std::string& file) : file_(file) {}

  bool operator()(int depth, json::parse_event_t event, const json& value) {
    if (depth > k_max_depth) {
      throw base::InputError(file_, "", fmt::format("nested deeper than {} levels", k_max_depth));
    }
    if (event == json::parse_event_t::object_start) keys_.emplace_back();
    if (event == json::parse_event_t::object_end) keys_.pop_back();
    if (event == json::parse_event_t::key &&
        !keys_.back().insert(value.get<std::string>()).second) {
      throw base::InputError(file_, "", fmt::format("key {} twice in one object", shown(value)));
    }
    return true;
  }

 private:
  const std::string& file_;
  std::vector<std::set<std::string, std::less<>>> keys_;  ///< of the objects that are open
};

struct Position {
  std::size_t line, column;  ///< both from 1
};

Position position_of(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto lines = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  const std::size_t line_start = lines == 0 ? 0 : before.rfind('\n') + 1;
  return {lines + 1, before.size() - line_start + 1};
}

/// The library's message without its prefix "[json.exception...] parse error at line 1, column 2:
/// ".
std::string reason(const json::parse_error& error) {
  const std::string what = error.what();
  const std::size_t position = what.find(": ");
  return position == std::string::npos ? what : what.substr(position + 2);
}

}  // namespace

json parse_document(std::string_view text, const std::string& file) {
  try {
    return json::parse(text, StructureGuard(file));
  } catch (const json::parse_error& error) {
    const Position at = position_of(text, error.byte == 0 ? 0 : error.byte - 1);
    throw base::InputError(file, fmt::format("line {}, column {}", at.line, at.column),
                           "not JSON: " + reason(error));
  } catch (const json::exception& error) {  // a number beyond float64
    throw base::InputError(file, "", fmt::format("unusable JSON: {}", error.what()));
  }
}

}  // namespace dynpipe::model
