#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/random.hpp"
#include "base/shape.hpp"

namespace dynpipe::data {

/// What is done to training images at random, so that no two epochs show the same ones. `flip`
/// swaps left and right, with probability 1/2. `crop` puts so many pixels of zero around the image
/// and cuts a piece of the image's own size out of that, anywhere.
struct Augmentation {
  bool flip = false;
  std::int64_t crop_padding = 0;  ///< pixels; 0: no crop

  bool any() const { return flip || crop_padding > 0; }
  /// As it is written: "flip,crop:4".
  std::string to_string() const;
  /// The words `flip` and `crop` or `crop:PAD` (PAD 4 if not said), in any order, each once,
  /// between commas. Throws InputError naming `option`.
  static Augmentation parse(const std::string& text, const std::string& option);
};

/// Augments the images of one epoch. What becomes of a sample is a function of seed, epoch and the
/// sample's number alone, so every plan and rank count sees the same.
class Augmenter {
 public:
  /// `image` is [C,H,W].
  Augmenter(const Augmentation& augmentation, const base::Shape& image, std::uint64_t seed,
            std::int64_t epoch);

  /// What is done to one sample: pixel (y, x) comes from (y + down, x' + right), x' being x or,
  /// flipped, W-1-x; from outside comes 0.
  struct Change {
    bool flip;
    std::int64_t down, right;
  };
  Change change(std::uint64_t sample) const;

  /// Writes the changed image, [C,H,W]. `T` is std::uint8_t or float, as images are before they are
  /// normalised: what comes from outside is black, not the mean (as with torchvision's RandomCrop
  /// and RandomHorizontalFlip before ToTensor and Normalize).
  template <typename T>
  void write(std::uint64_t sample, std::span<const T> image, std::span<T> changed) const;

 private:
  Augmentation augmentation_;
  base::Shape image_;
  base::Philox random_;
};

extern template void Augmenter::write(std::uint64_t, std::span<const std::uint8_t>,
                                      std::span<std::uint8_t>) const;
extern template void Augmenter::write(std::uint64_t, std::span<const float>,
                                      std::span<float>) const;

}  // namespace dynpipe::data
