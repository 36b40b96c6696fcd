#include "data/image_source.hpp"

#include <utility>

namespace dynpipe::data {
namespace {

class MemorySource final : public ImageSource {
 public:
  MemorySource(Facts facts, std::vector<std::uint8_t> pixels)
      : ImageSource(std::move(facts)), pixels_(std::move(pixels)) {}

  std::span<const std::byte> pixels_of(std::int64_t index) override {
    return std::as_bytes(std::span(pixels_))
        .subspan(static_cast<std::size_t>(index) * image_bytes(), image_bytes());
  }

 private:
  std::vector<std::uint8_t> pixels_;  ///< [N,C,H,W]
};

}  // namespace

std::size_t size_of(PixelType pixels) {
  return pixels == PixelType::uint8 ? sizeof(std::uint8_t) : sizeof(float);
}

Normalisation measure_normalisation(ImageSource& source, std::optional<std::int64_t> images) {
  PixelStatistics statistics(source.facts().image[0]);
  for (std::int64_t i = 0; i < images.value_or(source.size()); ++i) {
    const std::span<const std::byte> bytes = source.pixels_of(i);
    if (source.facts().pixels == PixelType::uint8) {
      statistics.add(pixels_as<std::uint8_t>(bytes));
    } else {
      statistics.add(pixels_as<float>(bytes));
    }
  }
  return statistics.normalisation();
}

std::unique_ptr<ImageSource> make_memory_source(ImageSet set, std::string images_place,
                                                std::string labels_place, std::string format) {
  ImageSource::Facts facts;
  facts.image = set.image;
  facts.labels = std::move(set.labels);
  facts.classes = set.classes;
  facts.class_names = std::move(set.class_names);
  facts.images_place = std::move(images_place);
  facts.labels_place = std::move(labels_place);
  facts.format = std::move(format);
  return std::make_unique<MemorySource>(std::move(facts), std::move(set.pixels));
}

}  // namespace dynpipe::data
