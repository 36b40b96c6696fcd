#include "probe/text_file.hpp"

#include <fstream>
#include <sstream>

namespace dynpipe::probe {

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream stream(path);
  std::ostringstream text;
  if (!stream || !(text << stream.rdbuf())) return std::nullopt;
  return text.str();
}

}  // namespace dynpipe::probe
