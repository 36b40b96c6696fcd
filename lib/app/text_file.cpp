#include "app/text_file.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

namespace fs = std::filesystem;

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

[[noreturn]] void fail(const std::string& file, const char* what, int error_number) {
  throw base::InputError(file, "", std::string(what) + ": " + system_reason(error_number));
}

/// Throws with the name that the user knows.
void write_to(const std::string& path, const std::string& text, const std::string& file) {
  std::FILE* stream = std::fopen(path.c_str(), "wb");
  if (stream == nullptr) fail(file, "cannot be written", errno);
  const bool written = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
  int error = written ? 0 : errno;
  // What was buffered meets a full disk only here.
  if (std::fclose(stream) != 0 && error == 0) error = errno;
  if (error != 0) fail(file, "cannot be written", error);
}

}  // namespace

std::string system_reason(int error_number) {
  return std::generic_category().message(error_number);
}

std::string read_text_file(const std::string& file) {
  const File stream(std::fopen(file.c_str(), "rb"));
  if (!stream) fail(file, "cannot be read", errno);
  std::string text;
  std::array<char, 1U << 14U> part{};
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), stream.get())) {
    text.append(part.data(), got);
  }
  if (std::ferror(stream.get()) != 0) fail(file, "cannot be read", errno);
  return text;
}

std::string shared_text(const std::string& file, comm::World& world) {
  std::string text;
  world.together([&] {
    if (world.rank() != 0) return;
    text = read_text_file(file);
    if (text.empty()) throw base::InputError(file, "", "is empty");
  });
  return world.broadcast(text);
}

void replace_text_file(const std::string& file, const std::string& text) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    write_to(file, text, file);
    return;
  }
  // A link stays a link to what is replaced.
  const fs::path target = fs::exists(status) ? fs::canonical(file, error) : fs::path(file);
  const std::string part = target.string() + ".part";
  try {
    write_to(part, text, file);
  } catch (const base::InputError&) {
    fs::remove(part, error);
    throw;
  }
  fs::rename(part, target, error);
  if (error) fail(file, "cannot be written", error.value());
}

}  // namespace dynpipe::app
