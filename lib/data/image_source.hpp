#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/shape.hpp"
#include "data/image_set.hpp"
#include "data/normalisation.hpp"

namespace dynpipe::data {

enum class PixelType : std::uint8_t {
  uint8,    ///< 0 to 255, for 0 to 1
  float32,  ///< as they are
};
std::size_t size_of(PixelType pixels);

/// An image's bytes as the type they are of.
template <typename T>
std::span<const T> pixels_as(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

/// One split of a data set, wherever its images lie. Labels are in memory, images are handed out
/// one by one; not normalised.
class ImageSource {
 public:
  /// What a source knows of itself.
  struct Facts {
    base::Shape image;  ///< of one image, [C,H,W]
    PixelType pixels = PixelType::uint8;
    std::vector<std::int32_t> labels;  ///< [N], each below `classes`
    std::int64_t classes = 0;
    std::vector<std::string> class_names;        ///< [classes], or empty
    std::optional<Normalisation> normalisation;  ///< of the training split, where files state it
    std::string images_place, labels_place;      ///< file, and what in it, for messages
    std::string format;                          ///< for people: "IDX"
  };

  virtual ~ImageSource() = default;
  ImageSource(const ImageSource&) = delete;
  ImageSource& operator=(const ImageSource&) = delete;

  const Facts& facts() const { return facts_; }
  /// N, the number of images.
  std::int64_t size() const { return static_cast<std::int64_t>(facts_.labels.size()); }
  std::size_t image_bytes() const {
    return static_cast<std::size_t>(facts_.image.elements()) * size_of(facts_.pixels);
  }

  /// The pixels of image `index`, [C,H,W], aligned for their type; valid until the next call. One
  /// thread at a time. Throws InputError where they cannot be read or are no numbers.
  virtual std::span<const std::byte> pixels_of(std::int64_t index) = 0;
  /// n, the images that are read together: block i is [i*n, (i+1)*n). 0: all are in memory.
  virtual std::int64_t block_images() const { return 0; }
  /// Blocks that may be held at once, where there are any.
  virtual std::int64_t most_blocks() const { return 0; }
  /// Blocks read from the file so far.
  virtual std::int64_t blocks_read() const { return 0; }
  /// Tells which blocks are asked for `now`, and has those read that will be `soon`; both are kept
  /// until the next call.
  virtual void use_blocks(std::span<const std::uint64_t> /*now*/,
                          std::span<const std::uint64_t> /*soon*/) {}

 protected:
  explicit ImageSource(Facts facts) : facts_(std::move(facts)) {}

 private:
  Facts facts_;
};

/// Mean and deviation of its images, or of the first `images` of them, in one pass; the same on
/// every rank and machine. Where files state them, those are not asked: see Facts.
Normalisation measure_normalisation(ImageSource& source,
                                    std::optional<std::int64_t> images = std::nullopt);

/// A set in memory. Any number of threads may ask for pixels.
std::unique_ptr<ImageSource> make_memory_source(ImageSet set, std::string images_place,
                                                std::string labels_place, std::string format);

}  // namespace dynpipe::data
