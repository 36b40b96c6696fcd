#include "data/normalisation.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace dynpipe::data {
namespace {

constexpr double k_white = 255.0;
constexpr double k_least_deviation = 1.0 / k_white;

/// How many pixels have each value.
using Histogram = std::array<std::int64_t, 256>;

std::vector<Histogram> histograms_by_channel(const ImageSet& set) {
  std::vector<Histogram> histograms(static_cast<std::size_t>(set.image[0]), Histogram{});
  const auto plane = static_cast<std::size_t>(set.image[1] * set.image[2]);
  for (std::size_t i = 0; i < set.pixels.size(); i += plane) {
    Histogram& histogram = histograms[i / plane % histograms.size()];
    for (std::uint8_t pixel : std::span(set.pixels).subspan(i, plane)) ++histogram[pixel];
  }
  return histograms;
}

struct Moments {
  double mean;
  double deviation;
};

Moments moments_of(const Histogram& histogram) {
  std::int64_t count = 0;
  std::int64_t sum = 0;
  for (std::int64_t pixel = 0; pixel < 256; ++pixel) {
    count += histogram[static_cast<std::size_t>(pixel)];
    sum += histogram[static_cast<std::size_t>(pixel)] * pixel;
  }
  // Squares are taken about the mean rounded down, an integer: exact, and nothing cancels.
  const std::int64_t centre = sum / count;
  std::int64_t squares = 0;
  for (std::int64_t pixel = 0; pixel < 256; ++pixel) {
    squares += histogram[static_cast<std::size_t>(pixel)] * (pixel - centre) * (pixel - centre);
  }
  const auto n = static_cast<double>(count);
  const double offset = static_cast<double>(sum % count) / n;
  const double variance = static_cast<double>(squares) / n - offset * offset;
  return {static_cast<double>(sum) / (k_white * n), std::sqrt(std::max(variance, 0.0)) / k_white};
}

}  // namespace

Normalisation measure_normalisation(const ImageSet& set) {
  if (set.size() == 0) throw std::invalid_argument("an empty set has no mean");
  Normalisation normalisation;
  for (const Histogram& histogram : histograms_by_channel(set)) {
    const Moments moments = moments_of(histogram);
    normalisation.mean.push_back(moments.mean);
    normalisation.deviation.push_back(std::max(moments.deviation, k_least_deviation));
  }
  return normalisation;
}

template <typename T>
ImageNormaliser<T>::ImageNormaliser(const Normalisation& normalisation)
    : tables_(normalisation.mean.size()) {
  for (std::size_t channel = 0; channel < tables_.size(); ++channel) {
    for (std::size_t pixel = 0; pixel < 256; ++pixel) {
      const double scaled = static_cast<double>(pixel) / k_white;
      tables_[channel][pixel] =
          static_cast<T>((scaled - normalisation.mean[channel]) / normalisation.deviation[channel]);
    }
  }
}

template <typename T>
void ImageNormaliser<T>::write(std::span<const std::uint8_t> image, std::span<T> normalised) const {
  const std::size_t plane = image.size() / tables_.size();
  for (std::size_t channel = 0; channel < tables_.size(); ++channel) {
    const auto& table = tables_[channel];
    const auto pixels = image.subspan(channel * plane, plane);
    std::transform(pixels.begin(), pixels.end(), normalised.subspan(channel * plane).begin(),
                   [&table](std::uint8_t pixel) { return table[pixel]; });
  }
}

template class ImageNormaliser<float>;
template class ImageNormaliser<double>;

}  // namespace dynpipe::data
