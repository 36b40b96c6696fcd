#include "data/augmentation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>

#include "base/errors.hpp"

namespace dynpipe::data {
namespace {

constexpr std::int64_t k_usual_padding = 4;
constexpr std::int64_t k_most_padding = 4096;

/// The PAD of "crop:PAD", or 0 if it is no such number.
std::int64_t padding_in(std::string_view word) {
  if (word == "crop") return k_usual_padding;
  const std::string_view digits = word.substr(std::string_view("crop:").size());
  std::int64_t padding = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), padding);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && padding <= k_most_padding ? std::max<std::int64_t>(padding, 0) : 0;
}

/// A word's share of [0, range].
std::int64_t upto(std::uint32_t word, std::int64_t range) {
  return static_cast<std::int64_t>(word * static_cast<std::uint64_t>(range + 1) >> 32U);
}

}  // namespace

std::string Augmentation::to_string() const {
  std::string text = flip ? "flip" : "";
  if (crop_padding > 0) text += fmt::format("{}crop:{}", flip ? "," : "", crop_padding);
  return text;
}

Augmentation Augmentation::parse(const std::string& text, const std::string& option) {
  Augmentation augmentation;
  const auto refuse = [&] {
    throw base::InputError(
        "", option, fmt::format("'{}' is not made of flip, crop and crop:PAD, each once", text));
  };
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "flip" && !augmentation.flip) {
      augmentation.flip = true;
    } else if ((word == "crop" || word.starts_with("crop:")) && augmentation.crop_padding == 0) {
      augmentation.crop_padding = padding_in(word);
      if (augmentation.crop_padding == 0) refuse();
    } else {
      refuse();
    }
  }
  if (!augmentation.any() || text.ends_with(',')) refuse();
  return augmentation;
}

Augmenter::Augmenter(const Augmentation& augmentation, const base::Shape& image, std::uint64_t seed,
                     std::int64_t epoch)
    : augmentation_(augmentation),
      image_(image),
      random_(seed, "augment", static_cast<std::uint64_t>(epoch)) {}

Augmenter::Change Augmenter::change(std::uint64_t sample) const {
  const base::Philox::Block words = random_.block(sample);
  const std::int64_t padding = augmentation_.crop_padding;
  return {augmentation_.flip && words[0] >> 31U != 0, upto(words[1], 2 * padding) - padding,
          upto(words[2], 2 * padding) - padding};
}

template <typename T>
void Augmenter::write(std::uint64_t sample, std::span<const T> image, std::span<T> changed) const {
  const auto [flip, down, right] = change(sample);
  const std::int64_t H = image_[1], W = image_[2];
  // Columns [begin, end) of the source's row are seen; the others come from outside.
  const std::int64_t begin = std::clamp<std::int64_t>(right, 0, W);
  const std::int64_t end = std::clamp<std::int64_t>(W + right, 0, W);
  std::fill(changed.begin(), changed.end(), T{0});
  for (std::int64_t row = 0; row < image_[0] * H; ++row) {
    const std::int64_t y = row % H + down;
    if (y < 0 || y >= H || begin >= end) continue;
    const T* from = image.data() + (row + down) * W;
    T* to = changed.data() + row * W;
    if (flip) {
      std::reverse_copy(from + begin, from + end, to + (W + right - end));
    } else {
      std::copy(from + begin, from + end, to + (begin - right));
    }
  }
}

template void Augmenter::write(std::uint64_t, std::span<const std::uint8_t>,
                               std::span<std::uint8_t>) const;
template void Augmenter::write(std::uint64_t, std::span<const float>, std::span<float>) const;

}  // namespace dynpipe::data
