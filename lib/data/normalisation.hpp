#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/image_set.hpp"

namespace dynpipe::data {

/// Mean and standard deviation of each channel's pixels, scaled from 0..255 to [0,1].
struct Normalisation {
  std::vector<double> mean;       ///< [C]
  std::vector<double> deviation;  ///< [C], never below a grey level, 1/255
};

/// That of a whole set (the population's deviation, divided by N*H*W), from sums in integers: the
/// same on every rank and machine. The set must not be empty.
Normalisation measure_normalisation(const ImageSet& set);

/// Writes images as a network wants them: (pixel / 255 - mean) / deviation, by channel. `T` is
/// float or double; the arithmetic is in double and rounded once. Const use is safe from several
/// threads.
template <typename T>
class ImageNormaliser {
 public:
  explicit ImageNormaliser(const Normalisation& normalisation);
  /// `image` and `normalised` are [C,H,W] and of equal length, divisible by C.
  void write(std::span<const std::uint8_t> image, std::span<T> normalised) const;

 private:
  std::vector<std::array<T, 256>> tables_;  ///< by channel, what each pixel value becomes
};

extern template class ImageNormaliser<float>;
extern template class ImageNormaliser<double>;

}  // namespace dynpipe::data
