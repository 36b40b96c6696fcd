#include "app/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace dynpipe::app {
namespace {

constexpr double k_live_interval_s = 0.1;
constexpr std::chrono::milliseconds k_passing_on{100};

/// Writes at once. A log that cannot be written, on a full disk say, does not end training.
void put(std::FILE* out, const std::string& text) {
  std::fputs(text.c_str(), out);
  std::fflush(out);
}

void warn(const std::string& text) {
  put(stderr, fmt::format("dynpipe: warning: {}\n", text));
}

}  // namespace

LiveProgress::LiveProgress(RunExtent extent, Terminal terminal, Charset charset,
                           const base::Clock& clock, std::FILE* out)
    : extent_(extent),
      terminal_(std::move(terminal)),
      charset_(charset),
      clock_(clock),
      out_(out),
      shown_s_(clock.now_s() - k_live_interval_s) {
  state_.epochs = extent.epochs;
  state_.total_updates = extent.total_updates;
}

void LiveProgress::on_epoch_begin(std::int64_t epoch) {
  state_.epoch = epoch;
  state_.evaluating = false;
  state_.virtual_time = extent_.virtual_time;
}

void LiveProgress::on_group(const GroupEvent& event) {
  state_.update = event.update;
  const std::int64_t before = (event.epoch - 1) * extent_.groups_per_epoch;
  const std::int64_t planned = std::min(extent_.groups_per_epoch, extent_.total_updates - before);
  state_.epoch_done = static_cast<double>(event.update - before) / static_cast<double>(planned);
  state_.loss = event.epoch_loss;
  state_.accuracy = event.epoch_accuracy;
  state_.samples_per_s = event.samples_per_s;
  state_.eta_s = event.eta_s;
  loads_.assign(event.loads.begin(), event.loads.end());
  if (clock_.now_s() - shown_s_ >= k_live_interval_s) draw();
}

void LiveProgress::on_evaluation_begin() {
  state_.evaluating = true;
  draw();
}

std::string LiveProgress::way_back() const {
  // A terminal that became narrower has broken the rows.
  const std::size_t columns = terminal_.columns();
  std::size_t lines = 0;
  for (const std::string& row : shown_) {
    lines += std::max<std::size_t>(1, (columns_of(row) + columns - 1) / columns);
  }
  return lines > 1 ? fmt::format("\r\x1b[{}A", lines - 1) : "\r";
}

void LiveProgress::draw() {
  shown_s_ = clock_.now_s();
  // The last column stays free: a cursor behind it may already be on the next line.
  const std::size_t room = std::max<std::size_t>(terminal_.columns(), 2) - 1;
  std::string text = way_back();
  shown_ = {progress_row(state_, room, charset_)};
  if (!loads_.empty()) shown_.push_back(stage_row(loads_, room, charset_));
  for (const std::string& row : shown_) {
    if (&row != &shown_.front()) text += "\n";
    text += row + "\x1b[K";
  }
  put(out_, text + "\x1b[J");
}

void LiveProgress::erase() {
  if (shown_.empty()) return;
  put(out_, way_back() + "\x1b[J");
  shown_.clear();
}

void LiveProgress::on_evaluation(const EvaluationEvent& event) {
  erase();
  put(out_, epoch_line(event, extent_) + "\n");
}

void LiveProgress::on_checkpoint(const CheckpointEvent& event) {
  erase();
  put(out_, checkpoint_line(event) + "\n");
}

void LiveProgress::on_notice(const std::string& text) {
  erase();
  warn(text);
}

void LiveProgress::on_end(RunStatus status, const std::string&) {
  if (shown_.empty()) return;
  put(out_, "\n");
  shown_.clear();
  // What is said next goes to stderr, which mpirun passes on apart from stdout: this line end
  // first.
  if (status != RunStatus::completed) std::this_thread::sleep_for(k_passing_on);
}

void LogProgress::on_group(const GroupEvent& event) {
  if (event.update % log_every_ != 0) return;
  put(out_, log_line(event, extent_) + "\n");
}

void LogProgress::on_evaluation(const EvaluationEvent& event) {
  put(out_, epoch_line(event, extent_) + "\n");
}

void LogProgress::on_checkpoint(const CheckpointEvent& event) {
  put(out_, checkpoint_line(event) + "\n");
}

void LogProgress::on_notice(const std::string& text) {
  warn(text);
}

}  // namespace dynpipe::app
