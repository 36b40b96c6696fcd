#include "app/progress.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace dynpipe::app {
namespace {

constexpr double k_live_interval_s = 0.1;

std::string bar(double done) {
  constexpr int k_width = 20;
  const int full = std::clamp(static_cast<int>(std::lround(done * k_width)), 0, k_width);
  return std::string(static_cast<std::size_t>(full), '=') +
         std::string(static_cast<std::size_t>(k_width - full), ' ');
}

std::string duration(double seconds) {
  const std::int64_t whole = std::lround(seconds);
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

/// What a process's standard output is, as /proc names it; "" if that cannot be read.
std::string output_of(const std::string& process) {
  std::array<char, 256> target{};
  const std::string link = fmt::format("/proc/{}/fd/1", process);
  return readlink(link.c_str(), target.data(), target.size() - 1) < 0 ? "" : target.data();
}

/// The terminal at which standard output ends, or "". A pseudo-terminal that is not the one that
/// controls this session was made by the process that started this one, such as mpirun, which
/// passes on what is written there: then it is that process's output that counts.
std::string output_terminal() {
  if (isatty(STDOUT_FILENO) == 0) return "";
  const std::string own = output_of("self");
  const bool passed_on = tcgetpgrp(STDOUT_FILENO) < 0;
  const std::string path = passed_on ? output_of(fmt::format("{}", getppid())) : own;
  const bool known = !passed_on || path != own;
  return known && (path.starts_with("/dev/pts/") || path.starts_with("/dev/tty")) ? path : "";
}

std::size_t columns_of(const std::string& terminal) {
  constexpr std::size_t k_usual = 80;
  const int file = open(terminal.c_str(), O_RDONLY | O_NOCTTY | O_CLOEXEC);
  if (file < 0) return k_usual;
  winsize size{};
  const bool known = ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  close(file);
  return known ? size.ws_col : k_usual;
}

/// A loss in a fixed width, however far it has gone astray.
std::string loss_text(double loss) {
  return loss < 1e5 ? fmt::format("{:.4f}", loss) : fmt::format("{:.3g}", loss);
}

}  // namespace

Progress::Progress(ProgressStyle style, std::int64_t log_every, Extent extent,
                   const base::Clock& clock, std::FILE* out)
    : terminal_(output_terminal()),
      live_(style == ProgressStyle::live ||
            (style == ProgressStyle::automatic && !terminal_.empty())),
      log_every_(log_every),
      extent_(extent),
      clock_(clock),
      out_(out),
      run_began_s_(clock.now_s()) {}

void Progress::begin_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  epoch_began_s_ = clock_.now_s();
  loss_sum_ = correct_ = samples_ = 0;
}

std::string Progress::line(std::int64_t updates_done) const {
  const double epoch_s = clock_.now_s() - epoch_began_s_;
  const double run_s = clock_.now_s() - run_began_s_;
  const auto left = static_cast<double>(extent_.total_updates - updates_done);
  return fmt::format("update {:>5}/{}  loss {}  acc {:5.2f} %  {:6.0f} samples/s  eta {}",
                     updates_done, extent_.total_updates, loss_text(mean_loss()), 100 * accuracy(),
                     samples_ / std::max(epoch_s, 1e-9),
                     duration(run_s / static_cast<double>(updates_done) * left));
}

void Progress::show_live(std::int64_t updates_done) {
  if (clock_.now_s() - shown_s_ < k_live_interval_s) return;
  shown_s_ = clock_.now_s();
  const double done = static_cast<double>(updates_done - epoch_ * extent_.groups_per_epoch) /
                      static_cast<double>(extent_.groups_per_epoch);
  // A line that wraps could not be written over: the bar goes first, then the line's end.
  const std::size_t room = columns_of(terminal_) - 1;
  std::string text =
      fmt::format("{}/{} [{}] {}", epoch_ + 1, extent_.epochs, bar(done), line(updates_done));
  if (text.size() > room) {
    text = fmt::format("{}/{} {}", epoch_ + 1, extent_.epochs, line(updates_done));
  }
  fmt::print(out_, "\r\x1b[K{}", text.substr(0, room));
  std::fflush(out_);
  line_is_open_ = true;
}

void Progress::close_line() {
  if (line_is_open_) fmt::print(out_, "\n");
  std::fflush(out_);
  line_is_open_ = false;
}

void Progress::on_group(const pipeline::GroupMetrics& metrics, std::int64_t samples) {
  loss_sum_ += metrics.loss_sum;
  correct_ += metrics.correct;
  samples_ += static_cast<double>(samples);
  train_s_ = clock_.now_s() - epoch_began_s_;
  const std::int64_t updates_done = metrics.group + 1;
  if (live_) {
    show_live(updates_done);
  } else if (updates_done % log_every_ == 0) {
    fmt::print(out_, "epoch {}/{}  {}\n", epoch_ + 1, extent_.epochs, line(updates_done));
    std::fflush(out_);
  }
}

void Progress::end_epoch(std::int64_t epoch, double test_loss, double test_accuracy) {
  fmt::print(out_,
             "{}epoch {}/{}  train {} ({:.2f} %)  test {} ({:.2f} %)  {:.0f} samples/s  {:.1f} s\n",
             live_ ? "\r\x1b[K" : "", epoch + 1, extent_.epochs, loss_text(mean_loss()),
             100 * accuracy(), loss_text(test_loss), 100 * test_accuracy,
             samples_ / std::max(train_s_, 1e-9), clock_.now_s() - epoch_began_s_);
  std::fflush(out_);
  line_is_open_ = false;
}

}  // namespace dynpipe::app
