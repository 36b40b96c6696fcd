#include "data/normalisation.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace dynpipe::data {
namespace {

constexpr double k_white = 255.0;
constexpr double k_least_deviation = 1.0 / k_white;

constexpr double k_least_deviation_of_numbers = 1e-6;

struct MeanAndDeviation {
  double mean;
  double deviation;
};

MeanAndDeviation of_histogram(const std::array<std::int64_t, 256>& histogram) {
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

PixelStatistics::PixelStatistics(std::int64_t channels)
    : histograms_(static_cast<std::size_t>(channels), Histogram{}),
      moments_(static_cast<std::size_t>(channels)) {}

void PixelStatistics::add(std::span<const std::uint8_t> image) {
  const std::size_t plane = image.size() / histograms_.size();
  for (std::size_t channel = 0; channel < histograms_.size(); ++channel) {
    Histogram& histogram = histograms_[channel];
    for (std::uint8_t pixel : image.subspan(channel * plane, plane)) ++histogram[pixel];
  }
}

void PixelStatistics::add(std::span<const float> image) {
  bytes_ = false;
  const std::size_t plane = image.size() / moments_.size();
  const auto n = static_cast<double>(plane);
  for (std::size_t channel = 0; channel < moments_.size(); ++channel) {
    const auto values = image.subspan(channel * plane, plane);
    const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
    double squares = 0;
    for (float value : values) squares += (value - mean) * (value - mean);
    Moments& all = moments_[channel];
    const double count = all.count + n;
    const double offset = mean - all.mean;
    all.squares += squares + offset * offset * all.count * n / count;
    all.mean += offset * n / count;
    all.count = count;
  }
}

Normalisation PixelStatistics::normalisation() const {
  Normalisation normalisation;
  for (std::size_t channel = 0; channel < histograms_.size(); ++channel) {
    if (bytes_) {
      const MeanAndDeviation found = of_histogram(histograms_[channel]);
      normalisation.mean.push_back(found.mean);
      normalisation.deviation.push_back(std::max(found.deviation, k_least_deviation));
    } else {
      const Moments& found = moments_[channel];
      normalisation.mean.push_back(found.mean);
      normalisation.deviation.push_back(
          std::max(std::sqrt(found.squares / found.count), k_least_deviation_of_numbers));
    }
  }
  return normalisation;
}

Normalisation measure_normalisation(const ImageSet& set) {
  if (set.size() == 0) throw std::invalid_argument("an empty set has no mean");
  PixelStatistics statistics(set.image[0]);
  for (std::int64_t i = 0; i < set.size(); ++i) statistics.add(set.pixels_of(i));
  return statistics.normalisation();
}

template <typename T>
ImageNormaliser<T>::ImageNormaliser(const Normalisation& normalisation)
    : normalisation_(normalisation), tables_(normalisation.mean.size()) {
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

template <typename T>
void ImageNormaliser<T>::write(std::span<const float> image, std::span<T> normalised) const {
  const std::size_t plane = image.size() / tables_.size();
  for (std::size_t channel = 0; channel < tables_.size(); ++channel) {
    const double mean = normalisation_.mean[channel];
    const double deviation = normalisation_.deviation[channel];
    const auto values = image.subspan(channel * plane, plane);
    std::transform(values.begin(), values.end(), normalised.subspan(channel * plane).begin(),
                   [=](float value) { return static_cast<T>((value - mean) / deviation); });
  }
}

template class ImageNormaliser<float>;
template class ImageNormaliser<double>;

}  // namespace dynpipe::data
