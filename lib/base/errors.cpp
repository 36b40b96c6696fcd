#include "base/errors.hpp"

namespace dynpipe::base {
namespace {

std::string located(std::string_view where, std::string_view field, std::string_view problem) {
  std::string message;
  for (std::string_view part : {where, field}) {
    if (!part.empty()) message.append(part).append(": ");
  }
  return message.append(problem);
}

}  // namespace

InputError::InputError(std::string_view where, std::string_view field, std::string_view problem)
    : Error(ExitCode::bad_input, located(where, field, problem)) {}

}  // namespace dynpipe::base
