#include "app/image_feed.hpp"

namespace dynpipe::app {
namespace {

template <typename T>
void write_as(const data::ImageNormaliser<T>& normaliser, data::ImageSource& source,
              std::span<const std::uint64_t> samples, T* x) {
  const auto length = static_cast<std::size_t>(source.facts().image.elements());
  for (std::uint64_t sample : samples) {
    const auto pixels = source.pixels_of(static_cast<std::int64_t>(sample));
    if (source.facts().pixels == data::PixelType::uint8) {
      normaliser.write(data::pixels_as<std::uint8_t>(pixels), {x, length});
    } else {
      normaliser.write(data::pixels_as<float>(pixels), {x, length});
    }
    x += length;
  }
}

}  // namespace

NormalisedImages::NormalisedImages(std::unique_ptr<data::ImageSource> source)
    : source_(std::move(source)) {}

NormalisedImages::NormalisedImages(std::unique_ptr<data::ImageSource> source,
                                   const data::Normalisation& normalisation)
    : source_(std::move(source)), float32_(normalisation), float64_(normalisation) {}

void NormalisedImages::write(std::span<const std::uint64_t> samples,
                             const tensor::Tensor& x) const {
  if (x.dtype == tensor::DType::float64) {
    write_as(*float64_, *source_, samples, x.as<double>());
  } else {
    write_as(*float32_, *source_, samples, x.as<float>());
  }
}

void NormalisedImages::write_labels(std::span<const std::uint64_t> samples,
                                    const tensor::Tensor& labels) const {
  std::int32_t* label = labels.as<std::int32_t>();
  for (std::uint64_t sample : samples) *label++ = source_->facts().labels[sample];
}

void TrainingFeed::write_input(std::int64_t microbatch, const tensor::Tensor& x) const {
  images_.use_blocks(order_.blocks(microbatch));
  images_.write(samples(microbatch), x);
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
