#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/image_set.hpp"

namespace dynpipe::data {

/// Mean and standard deviation of each channel's pixels: bytes scaled from 0..255 to [0,1], numbers
/// as they are.
struct Normalisation {
  std::vector<double> mean;       ///< [C]
  std::vector<double> deviation;  ///< [C], never below a grey level, 1/255 (numbers: 1e-6)
};

/// Takes up images one by one, all of bytes or all of numbers, and knows their mean and (divided by
/// N*H*W) deviation: of bytes from sums in integers, the same in any order.
class PixelStatistics {
 public:
  explicit PixelStatistics(std::int64_t channels);
  /// [C,H,W]
  void add(std::span<const std::uint8_t> image);
  void add(std::span<const float> image);
  /// There must have been an image.
  Normalisation normalisation() const;

 private:
  /// How many pixels have each value.
  using Histogram = std::array<std::int64_t, 256>;
  /// Of the numbers so far (Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for
  /// computing sample variances", 1979).
  struct Moments {
    double count = 0, mean = 0, squares = 0;  ///< squares: sum of (x - mean)^2
  };
  std::vector<Histogram> histograms_;  ///< [C]
  std::vector<Moments> moments_;       ///< [C]
  bool bytes_ = true;
};

/// That of a whole set in memory, which must not be empty.
Normalisation measure_normalisation(const ImageSet& set);

/// Writes images as a network wants them: (pixel / 255 - mean) / deviation, by channel, and numbers
/// without the 255. `T` is float or double; the arithmetic is in double and rounded once. Const use
/// is safe from several threads.
template <typename T>
class ImageNormaliser {
 public:
  explicit ImageNormaliser(const Normalisation& normalisation);
  /// `image` and `normalised` are [C,H,W] and of equal length, divisible by C.
  void write(std::span<const std::uint8_t> image, std::span<T> normalised) const;
  void write(std::span<const float> image, std::span<T> normalised) const;

 private:
  Normalisation normalisation_;
  std::vector<std::array<T, 256>> tables_;  ///< by channel, what each pixel value becomes
};

extern template class ImageNormaliser<float>;
extern template class ImageNormaliser<double>;

}  // namespace dynpipe::data
