#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/errors.hpp"
#include "plan/plan.hpp"

namespace dynpipe::plan {
namespace {

/// The whole number that the text is, or -1.
int number_in(std::string_view text) {
  int number = -1;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end ? number : -1;
}

}  // namespace

void set_recompute(Plan& plan, std::string_view which, const std::string& field) {
  for (Stage& stage : plan.stages) stage.recompute = which == "all";
  if (which == "all" || which == "none") return;
  for (std::size_t begin = 0; begin <= which.size();) {
    const std::size_t end = std::min(which.find(',', begin), which.size());
    const int stage = number_in(which.substr(begin, end - begin));
    if (stage < 0) {
      throw base::InputError(
          "", field, fmt::format("'{}' is not all, none or a list of stages such as 0,2", which));
    }
    if (stage >= plan.size()) {
      throw base::InputError(
          "", field,
          fmt::format("there is no stage {}: the plan has 0 to {}", stage, plan.size() - 1));
    }
    plan.stages[static_cast<std::size_t>(stage)].recompute = true;
    begin = end + 1;
  }
}

}  // namespace dynpipe::plan
