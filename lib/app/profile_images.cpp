#include "app/profile_images.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "app/image_feed.hpp"
#include "base/errors.hpp"
#include "base/random.hpp"
#include "data/data_set.hpp"

namespace dynpipe::app {
namespace {

/// Of blocks of an HDF5 file.
constexpr std::size_t k_block_bytes = std::size_t{64} << 20U;
/// Of made-up images: more than caches hold.
constexpr std::size_t k_pixels = std::size_t{48} << 20U;

/// Images in an order of their own, without end.
class ShuffledImages {
 public:
  ShuffledImages(NormalisedImages images, std::int64_t count, std::uint64_t seed)
      : images_(std::move(images)), count_(count), order_(seed, "profile order") {}
  const NormalisedImages& images() const { return images_; }

  void write(const tensor::Tensor& x) {
    samples_.resize(static_cast<std::size_t>(x.shape[0]));
    for (std::uint64_t& sample : samples_) {
      sample = order_.below(drawn_++, static_cast<std::uint64_t>(count_));
    }
    images_.write(samples_, x);
  }

 private:
  NormalisedImages images_;
  std::int64_t count_;
  base::Philox order_;
  std::uint64_t drawn_ = 0;
  std::vector<std::uint64_t> samples_;
};

WriteImages writer(std::shared_ptr<ShuffledImages> images) {
  return [images = std::move(images)](const tensor::Tensor& x) { images->write(x); };
}

/// A number in [0, bound).
std::int64_t draw(const base::Philox& random, std::uint64_t& draws, std::int64_t bound) {
  return static_cast<std::int64_t>(random.below(draws++, static_cast<std::uint64_t>(bound)));
}

void paint_rectangle(std::span<std::uint8_t> plane, std::int64_t height, std::int64_t width,
                     const base::Philox& random, std::uint64_t& draws) {
  const std::int64_t top = draw(random, draws, height), left = draw(random, draws, width);
  const std::int64_t bottom = std::min(height, top + 1 + draw(random, draws, (height + 1) / 2));
  const std::int64_t right = std::min(width, left + 1 + draw(random, draws, (width + 1) / 2));
  const auto grey = static_cast<std::uint8_t>(draw(random, draws, 256));
  for (std::int64_t row = top; row < bottom; ++row) {
    const auto begin = plane.begin() + row * width;
    std::fill(begin + left, begin + right, grey);
  }
}

data::ImageSet paint(const base::Shape& image, std::uint64_t seed) {
  const bool planes = image.rank() == 3;
  const base::Shape shape = planes ? image : base::Shape{1, 1, image.elements()};
  const auto length = static_cast<std::size_t>(shape.elements());
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(1, k_pixels / length));
  data::ImageSet set;
  set.image = shape;
  set.pixels.resize(static_cast<std::size_t>(count) * length);
  set.labels.assign(static_cast<std::size_t>(count), 0);
  const base::Philox random(seed, "profile images");
  std::uint64_t draws = 0;
  const std::size_t plane = length / static_cast<std::size_t>(shape[0]);
  for (std::size_t at = 0; at < set.pixels.size(); at += plane) {
    for (int i = 0; i < 4; ++i) {
      paint_rectangle({&set.pixels[at], plane}, shape[1], shape[2], random, draws);
    }
  }
  return set;
}

}  // namespace

WriteImages made_up_images(const base::Shape& image, std::uint64_t seed) {
  auto source = data::make_memory_source(paint(image, seed), "made up", "made up", "made up");
  const data::Normalisation normalisation = data::measure_normalisation(*source, 1000);
  const std::int64_t count = source->size();
  return writer(std::make_shared<ShuffledImages>(NormalisedImages(std::move(source), normalisation),
                                                 count, seed));
}

WriteImages training_images(const std::string& place, const model::Model& model,
                            std::uint64_t seed) {
  auto source = data::open_images(place, data::Split::train, k_block_bytes);
  if (!(source->facts().image == model.input)) {
    throw base::InputError(
        model.file, "input",
        fmt::format("is {}, but the images of {} are {}", model.input.to_string(), place,
                    source->facts().image.to_string()));
  }
  std::int64_t count = source->size();
  if (count == 0) throw base::InputError(place, "train", "has no images");
  std::vector<std::uint64_t> blocks;
  if (source->block_images() > 0) {
    const std::int64_t most = std::max<std::int64_t>(1, source->most_blocks());
    count = std::min(count, most * source->block_images());
    blocks.resize(
        static_cast<std::size_t>((count + source->block_images() - 1) / source->block_images()));
    std::iota(blocks.begin(), blocks.end(), 0);
  }
  const data::Normalisation normalisation = source->facts().normalisation
                                                ? *source->facts().normalisation
                                                : data::measure_normalisation(*source, count);
  auto images = std::make_shared<ShuffledImages>(NormalisedImages(std::move(source), normalisation),
                                                 count, seed);
  if (!blocks.empty()) images->images().use_blocks({blocks, {}});
  return writer(std::move(images));
}

}  // namespace dynpipe::app
