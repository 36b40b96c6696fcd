#include "app/terminal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <langinfo.h>
#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>

namespace dynpipe::app {
namespace {

/// What a process's standard output is, as /proc names it; "" if that cannot be read.
std::string output_of(const std::string& process) {
  std::array<char, 256> target{};
  const std::string link = fmt::format("/proc/{}/fd/1", process);
  return readlink(link.c_str(), target.data(), target.size() - 1) < 0 ? "" : target.data();
}

/// The terminal at which standard output ends, or "". A pseudo-terminal that is not the one that
/// controls this session was made by the process that started this one, such as mpirun, which
/// passes on what is written there: then it is that process's output that counts.
std::string output_device() {
  if (isatty(STDOUT_FILENO) == 0) return "";
  const std::string own = output_of("self");
  const bool passed_on = tcgetpgrp(STDOUT_FILENO) < 0;
  const std::string path = passed_on ? output_of(fmt::format("{}", getppid())) : own;
  const bool known = !passed_on || path != own;
  return known && (path.starts_with("/dev/pts/") || path.starts_with("/dev/tty")) ? path : "";
}

}  // namespace

std::optional<Terminal> Terminal::of_stdout() {
  const char* type = std::getenv("TERM");
  if (type == nullptr || std::string_view(type) == "dumb") return std::nullopt;
  const std::string device = output_device();
  if (device.empty()) return std::nullopt;
  return Terminal(device);
}

std::size_t Terminal::columns() const {
  constexpr std::size_t k_usual = 80;
  if (device_.empty()) return k_usual;
  const int file = open(device_.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (file < 0) return k_usual;
  winsize size{};
  const bool known = ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  close(file);
  return known ? size.ws_col : k_usual;
}

Charset charset_of_locale() {
  // The process's own locale stays "C": numbers in files are written with a point.
  const locale_t locale = newlocale(LC_CTYPE_MASK, "", nullptr);
  if (locale == nullptr) return Charset::ascii;
  const bool utf8 = std::string_view(nl_langinfo_l(CODESET, locale)) == "UTF-8";
  freelocale(locale);
  return utf8 ? Charset::blocks : Charset::ascii;
}

}  // namespace dynpipe::app
