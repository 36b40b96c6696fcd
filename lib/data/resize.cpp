#include "data/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace dynpipe::data {
namespace {

/// What one output pixel takes from the input: weights of consecutive pixels, of sum 1.
struct Taps {
  std::int64_t first;
  std::vector<float> weights;
};

/// For every output pixel of an axis. `from` and `to`: its lengths.
std::vector<Taps> taps_of(std::int64_t from, std::int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0);
  std::vector<Taps> all;
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first =
        std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(centre - reach + 0.5)));
    const auto end =
        std::min<std::int64_t>(from, static_cast<std::int64_t>(std::floor(centre + reach + 0.5)));
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t j = first; j < end; ++j) {
      weights.push_back(
          std::max(0.0, 1.0 - std::abs(static_cast<double>(j) + 0.5 - centre) / reach));
      sum += weights.back();
    }
    Taps taps{first, {}};
    for (double weight : weights) taps.weights.push_back(static_cast<float>(weight / sum));
    all.push_back(std::move(taps));
  }
  return all;
}

/// Rows of `in` [H,row] combined to [taps,row].
std::vector<float> combine_rows(const std::vector<float>& in, const std::vector<Taps>& taps,
                                std::size_t row) {
  std::vector<float> out(taps.size() * row, 0.0F);
  for (std::size_t y = 0; y < taps.size(); ++y) {
    for (std::size_t tap = 0; tap < taps[y].weights.size(); ++tap) {
      const float weight = taps[y].weights[tap];
      const float* from = &in[(static_cast<std::size_t>(taps[y].first) + tap) * row];
      float* to = &out[y * row];
      for (std::size_t i = 0; i < row; ++i) to[i] += weight * from[i];
    }
  }
  return out;
}

/// Pixels of each row of the picture combined: [H,taps,channels].
std::vector<float> combine_columns(const Picture& picture, const std::vector<Taps>& taps) {
  const auto channels = static_cast<std::size_t>(picture.channels);
  const std::size_t row = static_cast<std::size_t>(picture.width) * channels;
  std::vector<float> out;
  out.reserve(static_cast<std::size_t>(picture.height) * taps.size() * channels);
  for (std::size_t begin = 0; begin < picture.pixels.size(); begin += row) {
    for (const Taps& tap : taps) {
      const std::uint8_t* from =
          &picture.pixels[begin + static_cast<std::size_t>(tap.first) * channels];
      for (std::size_t c = 0; c < channels; ++c) {
        float sum = 0;
        for (std::size_t i = 0; i < tap.weights.size(); ++i) {
          sum += tap.weights[i] * static_cast<float>(from[i * channels + c]);
        }
        out.push_back(sum);
      }
    }
  }
  return out;
}

}  // namespace

Picture resize(const Picture& picture, std::int64_t height, std::int64_t width) {
  if (picture.height == height && picture.width == width) return picture;
  const std::vector<float> narrowed = combine_columns(picture, taps_of(picture.width, width));
  const std::vector<float> values =
      combine_rows(narrowed, taps_of(picture.height, height),
                   static_cast<std::size_t>(width * picture.channels));
  Picture result{height, width, picture.channels, {}};
  result.pixels.reserve(values.size());
  for (float value : values) {
    result.pixels.push_back(static_cast<std::uint8_t>(std::clamp(std::lround(value), 0L, 255L)));
  }
  return result;
}

Picture resize_and_crop(const Picture& picture, std::int64_t height, std::int64_t width) {
  const double scale = std::max(static_cast<double>(height) / static_cast<double>(picture.height),
                                static_cast<double>(width) / static_cast<double>(picture.width));
  const auto scaled = [scale](std::int64_t length, std::int64_t least) {
    return std::max<std::int64_t>(least, std::lround(static_cast<double>(length) * scale));
  };
  const Picture large =
      resize(picture, scaled(picture.height, height), scaled(picture.width, width));
  Picture result{height, width, large.channels, {}};
  const std::int64_t top = (large.height - height) / 2;
  const std::int64_t left = (large.width - width) / 2;
  for (std::int64_t y = top; y < top + height; ++y) {
    const auto row = large.pixels.begin() + (y * large.width + left) * large.channels;
    result.pixels.insert(result.pixels.end(), row, row + width * large.channels);
  }
  return result;
}

}  // namespace dynpipe::data
