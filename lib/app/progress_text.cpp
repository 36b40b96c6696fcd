#include "app/progress_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace dynpipe::app {
namespace {

/// How a stage is drawn, from roomy to narrow.
struct CellStyle {
  bool word, waiting;
  std::size_t bar_width;
  std::string_view gap;  ///< between two
};
constexpr std::array k_cell_styles{CellStyle{true, true, 8, " | "}, CellStyle{true, false, 8, "  "},
                                   CellStyle{true, false, 4, "  "},
                                   CellStyle{false, false, 4, "  "}};

std::string percent(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

std::string cell(const StageLoad& load, const CellStyle& style, Charset charset) {
  std::string text = style.word ? "stage " : "";
  text += fmt::format("{} {}", load.stage, bar(load.busy, style.bar_width, charset));
  if (!load.known) return text + "   - %";
  text += fmt::format("{:>6}", percent(load.busy));
  if (style.waiting) text += fmt::format("  wait{:>5}", percent(load.waiting));
  return text;
}

std::string cells(std::span<const StageLoad> loads, const CellStyle& style, Charset charset) {
  std::string text;
  for (const StageLoad& load : loads) {
    if (!text.empty()) text += style.gap;
    text += cell(load, style, charset);
  }
  return text;
}

/// The `count` busiest, in the order of stages.
std::vector<StageLoad> busiest(std::span<const StageLoad> loads, std::size_t count) {
  std::vector<StageLoad> found(loads.begin(), loads.end());
  std::stable_sort(found.begin(), found.end(),
                   [](const StageLoad& a, const StageLoad& b) { return a.busy > b.busy; });
  found.resize(std::min(count, found.size()));
  std::sort(found.begin(), found.end(),
            [](const StageLoad& a, const StageLoad& b) { return a.stage < b.stage; });
  return found;
}

/// The first columns of a text.
std::string cut(const std::string& text, std::size_t columns) {
  std::size_t bytes = 0;
  for (std::size_t seen = 0; bytes < text.size(); ++bytes) {
    const bool starts = (static_cast<unsigned char>(text[bytes]) & 0xC0U) != 0x80U;
    if (starts && ++seen > columns) break;
  }
  return text.substr(0, bytes);
}

}  // namespace

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
  }));
}

std::string bar(double share, std::size_t width, Charset charset) {
  static constexpr std::array<std::string_view, 8> k_parts{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const std::size_t steps = charset == Charset::blocks ? 8 : 1;
  const double within = std::clamp(share, 0.0, 1.0) * static_cast<double>(width * steps);
  const auto filled = static_cast<std::size_t>(std::lround(within));
  std::string text;
  for (std::size_t i = 0; i < filled / steps; ++i) text += charset == Charset::blocks ? "█" : "#";
  text += k_parts.at(filled % steps);
  text.append(width - columns_of(text), ' ');
  return text;
}

std::string duration_text(double seconds) {
  const std::int64_t whole = std::lround(seconds);
  if (whole >= 3600) {
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string loss_text(double loss) {
  return loss < 1e5 ? fmt::format("{:.4f}", loss) : fmt::format("{:.3g}", loss);
}

std::string progress_row(const ProgressState& state, std::size_t width, Charset charset) {
  const std::string epoch = fmt::format("epoch {}/{}", state.epoch, state.epochs);
  const std::string updates = fmt::format("  {}/{}", state.update, state.total_updates);
  const std::string loss = fmt::format("  loss {}", loss_text(state.loss));
  const std::string accuracy = fmt::format("  acc {:5.2f} %", 100 * state.accuracy);
  const std::string speed = fmt::format("  {:.0f}", state.samples_per_s);
  const std::string left =
      state.evaluating ? "  evaluating" : fmt::format("  eta {}", duration_text(state.eta_s));
  const std::string second = fmt::format(" samples/{}", second_text(state.virtual_time));
  struct Choice {
    std::string text;
    std::size_t least_bar;
  };
  const std::array choices{
      Choice{"  update" + updates.substr(1) + loss + accuracy + speed + second + left, 16},
      Choice{updates + loss + accuracy + speed + second + left, 10},
      Choice{updates + loss + accuracy + speed + "/s" + left, 6},
      Choice{updates + loss + accuracy + left, 6}, Choice{loss + accuracy + left, 4}};
  for (const auto& [text, least_bar] : choices) {
    constexpr std::size_t k_widest_bar = 40;
    const std::size_t used = epoch.size() + 1 + text.size();
    if (used + least_bar > width) continue;
    return epoch + " " + bar(state.epoch_done, std::min(width - used, k_widest_bar), charset) +
           text;
  }
  return (epoch + loss + left).substr(0, width);
}

std::string stage_row(std::span<const StageLoad> loads, std::size_t width, Charset charset) {
  for (const CellStyle& style : k_cell_styles) {
    std::string text = cells(loads, style, charset);
    if (columns_of(text) <= width) return text;
  }
  for (std::size_t count = loads.size() - 1; count > 0; --count) {
    const std::vector<StageLoad> shown = busiest(loads, count);
    std::string text = cells(shown, k_cell_styles.back(), charset);
    text += fmt::format("  busiest {} of {}", count, loads.size());
    if (columns_of(text) <= width) return text;
  }
  return cut(cell(busiest(loads, 1).front(), k_cell_styles.back(), charset), width);
}

std::string stage_words(std::span<const StageLoad> loads) {
  constexpr std::size_t k_most = 8;
  if (loads.size() <= k_most) {
    std::string text = "busy";
    for (const StageLoad& load : loads) {
      text += load.known ? fmt::format(" {:.0f}", 100 * load.busy) : " -";
    }
    return text + " %";
  }
  const auto [least, most] =
      std::minmax_element(loads.begin(), loads.end(),
                          [](const StageLoad& a, const StageLoad& b) { return a.busy < b.busy; });
  return fmt::format("busy {:.0f}..{:.0f} % (most: stage {})", 100 * least->busy, 100 * most->busy,
                     most->stage);
}

std::string_view second_text(bool virtual_time) {
  return virtual_time ? "virtual s" : "s";
}

std::string log_line(const GroupEvent& event, const RunExtent& extent) {
  return fmt::format(
      "epoch {}/{}  update {:>5}/{}  loss {}  acc {:5.2f} %  {:6.0f} samples/{}  eta {}  {}",
      event.epoch, extent.epochs, event.update, extent.total_updates, loss_text(event.epoch_loss),
      100 * event.epoch_accuracy, event.samples_per_s, second_text(extent.virtual_time),
      duration_text(event.eta_s), stage_words(event.loads));
}

std::string checkpoint_line(const CheckpointEvent& event) {
  return fmt::format("checkpoint {}: {:.1f} MB, training paused {:.0f} ms, written in {:.1f} s{}",
                     event.path, static_cast<double>(event.bytes) / 1e6, 1e3 * event.pause_s,
                     event.write_s, event.best ? ", the best so far" : "");
}

std::string epoch_line(const EvaluationEvent& event, const RunExtent& extent) {
  const EpochResult& result = event.result;
  std::string text = fmt::format(
      "epoch {}/{}  train {} ({:.2f} %)  test {} ({:.2f} %)  {:.0f} samples/{}  {:.1f} {}",
      result.epoch, extent.epochs, loss_text(result.train_loss), 100 * result.train_accuracy,
      loss_text(result.test_loss), 100 * result.test_accuracy,
      static_cast<double>(result.samples) / std::max(result.train_s, 1e-9),
      second_text(extent.virtual_time), result.wall_s, second_text(extent.virtual_time));
  if (event.cut_short) {
    text += fmt::format("\nepoch {} was cut short by --max-updates: {} of its {} updates were made",
                        result.epoch, event.update - (result.epoch - 1) * extent.groups_per_epoch,
                        extent.groups_per_epoch);
  }
  return text;
}

}  // namespace dynpipe::app
