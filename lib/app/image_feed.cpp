#include "app/image_feed.hpp"

namespace dynpipe::app {
namespace {

/// Writes the images, whose pixels are `Pixel`, one after the other.
template <typename Pixel, typename T>
void write_images(const data::ImageNormaliser<T>& normaliser, data::ImageSource& source,
                  std::span<const std::uint64_t> samples, const data::Augmenter* augmenter, T* x) {
  const auto length = static_cast<std::size_t>(source.facts().image.elements());
  std::vector<Pixel> changed(augmenter != nullptr ? length : 0);
  for (std::uint64_t sample : samples) {
    std::span<const Pixel> pixels =
        data::pixels_as<Pixel>(source.pixels_of(static_cast<std::int64_t>(sample)));
    if (augmenter != nullptr) {
      augmenter->write<Pixel>(sample, pixels, changed);
      pixels = changed;
    }
    normaliser.write(pixels, {x, length});
    x += length;
  }
}

template <typename T>
void write_as(const data::ImageNormaliser<T>& normaliser, data::ImageSource& source,
              std::span<const std::uint64_t> samples, const data::Augmenter* augmenter, T* x) {
  if (source.facts().pixels == data::PixelType::uint8) {
    write_images<std::uint8_t>(normaliser, source, samples, augmenter, x);
  } else {
    write_images<float>(normaliser, source, samples, augmenter, x);
  }
}

}  // namespace

NormalisedImages::NormalisedImages(std::unique_ptr<data::ImageSource> source)
    : source_(std::move(source)) {}

NormalisedImages::NormalisedImages(std::unique_ptr<data::ImageSource> source,
                                   const data::Normalisation& normalisation)
    : source_(std::move(source)), float32_(normalisation), float64_(normalisation) {}

void NormalisedImages::write(std::span<const std::uint64_t> samples, const tensor::Tensor& x,
                             const data::Augmenter* augmenter) const {
  if (x.dtype == tensor::DType::float64) {
    write_as(*float64_, *source_, samples, augmenter, x.as<double>());
  } else {
    write_as(*float32_, *source_, samples, augmenter, x.as<float>());
  }
}

void NormalisedImages::write_labels(std::span<const std::uint64_t> samples,
                                    const tensor::Tensor& labels) const {
  std::int32_t* label = labels.as<std::int32_t>();
  for (std::uint64_t sample : samples) *label++ = source_->facts().labels[sample];
}

void TrainingFeed::write_input(std::int64_t microbatch, const tensor::Tensor& x) const {
  images_.use_blocks(order_.blocks(microbatch));
  if (!augmenting_.augmentation.any()) return images_.write(samples(microbatch), x);
  const data::Augmenter augmenter(augmenting_.augmentation, x.shape.without_batch(),
                                  augmenting_.seed,
                                  order_.epoch_of_group(microbatch / order_.microbatches()));
  images_.write(samples(microbatch), x, &augmenter);
}
void TrainingFeed::write_labels(std::int64_t microbatch, const tensor::Tensor& labels) const {
  images_.write_labels(samples(microbatch), labels);
}
void EvaluationFeed::write_input(std::int64_t microbatch, const tensor::Tensor& x) const {
  images_.write(samples(microbatch), x);
}
void EvaluationFeed::write_labels(std::int64_t microbatch, const tensor::Tensor& labels) const {
  images_.write_labels(samples(microbatch), labels);
}

}  // namespace dynpipe::app
