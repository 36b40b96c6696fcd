#include "app/terminal_image.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "data/resize.hpp"

namespace dynpipe::app {
namespace {

/// From no ink to much.
constexpr std::string_view k_ramp = " .:-=+*#%@";
constexpr std::size_t k_tile_columns = 25;
constexpr std::size_t k_gap_columns = 2;
constexpr std::size_t k_tiles_in_row = 3;

using Rgb = std::array<int, 3>;

Rgb pixel_at(const data::Picture& picture, std::int64_t y, std::int64_t x) {
  if (y >= picture.height) return {0, 0, 0};
  const auto at = static_cast<std::size_t>((y * picture.width + x) * picture.channels);
  const auto channel = [&](std::size_t c) {
    return picture.pixels[at + (picture.channels >= 3 ? c : 0)];
  };
  return {channel(0), channel(1), channel(2)};
}

/// The nearest of xterm's grey ramp or 6x6x6 cube.
int palette_index(const Rgb& colour) {
  const auto [red, green, blue] = colour;
  const int mean = (red + green + blue) / 3;
  const int spread = std::max({red, green, blue}) - std::min({red, green, blue});
  if (spread < 12) {
    if (mean < 4) return 16;
    return mean > 242 ? 231 : 232 + (mean - 3) / 10;
  }
  const auto level = [](int value) { return value < 48 ? 0 : value < 115 ? 1 : (value - 35) / 40; };
  return 16 + 36 * level(red) + 6 * level(green) + level(blue);
}

std::string escape(const Rgb& upper, const Rgb& lower, Colours colours) {
  if (colours == Colours::palette) {
    return fmt::format("\x1b[38;5;{};48;5;{}m", palette_index(upper), palette_index(lower));
  }
  return fmt::format("\x1b[38;2;{};{};{};48;2;{};{};{}m", upper[0], upper[1], upper[2], lower[0],
                     lower[1], lower[2]);
}

double brightness(const Rgb& colour) {
  return (0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]) / 255;
}

char letter(const Rgb& upper, const Rgb& lower) {
  const double mean = (brightness(upper) + brightness(lower)) / 2;
  const auto index = static_cast<std::size_t>(mean * static_cast<double>(k_ramp.size()));
  return k_ramp[std::min(index, k_ramp.size() - 1)];
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool speaks_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    std::string language = variable(name);
    if (language.empty()) continue;
    std::transform(language.begin(), language.end(), language.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return language.find("utf-8") != std::string::npos ||
           language.find("utf8") != std::string::npos;
  }
  return false;
}

/// The picture, no wider than a tile.
data::Picture fitted(const data::Picture& picture) {
  constexpr auto k_most = static_cast<std::int64_t>(k_tile_columns);
  if (picture.width <= k_most && picture.height <= 2 * k_most) return picture;
  const double scale = std::min(static_cast<double>(k_most) / static_cast<double>(picture.width),
                                2.0 * k_most / static_cast<double>(picture.height));
  const auto scaled = [scale](std::int64_t length) {
    return std::max<std::int64_t>(1, std::lround(static_cast<double>(length) * scale));
  };
  return data::resize(picture, scaled(picture.height), scaled(picture.width));
}

struct Tile {
  std::vector<std::string> lines;
  std::size_t columns;
  std::string caption;
};

/// Appends `text`, which takes so many columns, padded to a tile's width.
void append_padded(std::string& line, const std::string& text, std::size_t columns) {
  line += text;
  line.append(k_tile_columns + k_gap_columns - std::min(columns, k_tile_columns), ' ');
}

std::string finished(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

std::string draw_row(std::span<const Tile> tiles) {
  std::size_t height = 0;
  for (const Tile& tile : tiles) height = std::max(height, tile.lines.size());
  std::string text;
  for (std::size_t y = 0; y < height; ++y) {
    std::string line;
    for (const Tile& tile : tiles) {
      const bool there = y < tile.lines.size();
      append_padded(line, there ? tile.lines[y] : "", there ? tile.columns : 0);
    }
    text += finished(std::move(line));
  }
  std::string captions;
  for (const Tile& tile : tiles) {
    const std::string caption = tile.caption.substr(0, k_tile_columns);
    append_padded(captions, caption, caption.size());
  }
  return text + finished(std::move(captions));
}

}  // namespace

Colours colours_of_output() {
  if (isatty(STDOUT_FILENO) == 0 || !variable("NO_COLOR").empty() || !speaks_utf8()) {
    return Colours::none;
  }
  const std::string colours = variable("COLORTERM");
  if (colours == "truecolor" || colours == "24bit") return Colours::true_colour;
  return variable("TERM").find("256color") != std::string::npos ? Colours::palette : Colours::none;
}

std::vector<std::string> draw(const data::Picture& picture, Colours colours) {
  std::vector<std::string> lines;
  for (std::int64_t y = 0; y < picture.height; y += 2) {
    std::string line, last;
    for (std::int64_t x = 0; x < picture.width; ++x) {
      const Rgb upper = pixel_at(picture, y, x);
      const Rgb lower = pixel_at(picture, y + 1, x);
      if (colours == Colours::none) {
        line += letter(upper, y + 1 < picture.height ? lower : upper);
        continue;
      }
      const std::string change = escape(upper, lower, colours);
      if (change != last) line += change;
      last = change;
      line += "▀";
    }
    lines.push_back(colours == Colours::none ? line : line + "\x1b[0m");
  }
  return lines;
}

std::string draw_gallery(std::span<const data::Picture> pictures,
                         std::span<const std::string> captions, Colours colours) {
  std::vector<Tile> tiles;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const data::Picture picture = fitted(pictures[i]);
    tiles.push_back({draw(picture, colours), static_cast<std::size_t>(picture.width), captions[i]});
  }
  std::string text;
  for (std::size_t first = 0; first < tiles.size(); first += k_tiles_in_row) {
    const std::size_t count = std::min(k_tiles_in_row, tiles.size() - first);
    text += (first > 0 ? "\n" : "") + draw_row(std::span(tiles).subspan(first, count));
  }
  return text;
}

}  // namespace dynpipe::app
