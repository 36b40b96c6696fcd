#include "app/metrics_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "app/text_file.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

constexpr double k_flush_interval_s = 1;

/// What a file of this format tells of the updates up to this one, whole lines only; its header
/// alone where there is no such file.
std::string told_before(const std::string& file, const MetricsFormat& format,
                        std::optional<std::int64_t> update) {
  std::string kept = format.header();
  if (!update || !std::filesystem::is_regular_file(file)) return kept;
  std::istringstream lines(read_text_file(file));
  for (std::string line; std::getline(lines, line);) {
    const auto told = lines.eof() ? std::nullopt : format.update_in(line);
    if (told && *told <= *update) kept += line + "\n";
  }
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(std::string file, int stages, const base::Clock& clock,
                         std::function<void(const std::string&)> warn,
                         std::optional<std::int64_t> resumed_after)
    : file_(std::move(file)),
      format_(MetricsFormat::for_file(file_, stages)),
      clock_(clock),
      warn_(std::move(warn)),
      pending_(told_before(file_, *format_, resumed_after)),
      descriptor_(open(file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)),
      flushed_s_(clock.now_s()) {
  if (descriptor_ < 0) {
    throw base::InputError(file_, "", "cannot be written: " + system_reason(errno));
  }
}

MetricsFile::~MetricsFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void MetricsFile::add(const std::string& line) {
  if (descriptor_ < 0) return;
  pending_ += line;
  if (clock_.now_s() - flushed_s_ >= k_flush_interval_s) flush();
}

void MetricsFile::flush() {
  flushed_s_ = clock_.now_s();
  std::string_view left = pending_;
  while (descriptor_ >= 0 && !left.empty()) {
    const ssize_t written = write(descriptor_, left.data(), left.size());
    if (written >= 0) {
      left.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      const std::string_view done(pending_.data(), pending_.size() - left.size());
      const std::size_t whole_lines = done.rfind('\n') + 1;  // npos + 1 is 0
      give_up(errno, done.size() - whole_lines);
    }
  }
  pending_.clear();
}

void MetricsFile::give_up(int error_number, std::size_t bytes) {
  struct stat status {};
  if (bytes > 0 && fstat(descriptor_, &status) == 0 &&
      ftruncate(descriptor_, status.st_size - static_cast<off_t>(bytes)) != 0) {
    error_number = errno;
  }
  close(descriptor_);
  descriptor_ = -1;
  warn_(fmt::format("{}: cannot be written any more: {}; training goes on without it", file_,
                    system_reason(error_number)));
}

void MetricsFile::on_group(const GroupEvent& event) {
  if (descriptor_ >= 0) add(format_->update(event));
}

void MetricsFile::on_evaluation_begin() {
  flush();
}

void MetricsFile::on_evaluation(const EvaluationEvent& event) {
  add(format_->evaluation(event));
}

void MetricsFile::on_end(RunStatus status, const std::string& reason) {
  add(format_->end(status, reason));
  flush();
}

}  // namespace dynpipe::app
