#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/picture.hpp"

namespace dynpipe::app {

/// What a terminal can show of a picture.
enum class Colours : std::uint8_t {
  none,        ///< letters of more or less ink
  palette,     ///< the 256 of xterm
  true_colour  ///< 24 bits
};

/// What standard output can show: colours where it is a terminal whose TERM, COLORTERM and language
/// (UTF-8) say so and NO_COLOR is not set.
Colours colours_of_output();

/// Lines that show the picture, one column a pixel. In colours each line shows two rows of pixels
/// ("▀"), else the mean of two rows as a letter.
std::vector<std::string> draw(const data::Picture& picture, Colours colours);

/// Draws pictures side by side, each at most `most_columns` wide, with a caption below, in lines of
/// no more than 80 columns.
std::string draw_gallery(std::span<const data::Picture> pictures,
                         std::span<const std::string> captions, Colours colours);

}  // namespace dynpipe::app
