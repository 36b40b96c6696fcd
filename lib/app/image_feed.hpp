#pragma once

#include <memory>
#include <optional>

#include "data/augmentation.hpp"
#include "data/image_source.hpp"
#include "data/normalisation.hpp"
#include "data/sample_order.hpp"
#include "pipeline/feed.hpp"

namespace dynpipe::app {

/// Images and how they are written for a network: what the first and the last stage hold of a
/// split. Other stages hold an empty one.
class NormalisedImages {
 public:
  NormalisedImages() = default;
  /// For labels alone.
  explicit NormalisedImages(std::unique_ptr<data::ImageSource> source);
  NormalisedImages(std::unique_ptr<data::ImageSource> source,
                   const data::Normalisation& normalisation);
  /// See data::ImageSource::use_blocks.
  void use_blocks(data::BlockUse blocks) const { source_->use_blocks(blocks.now, blocks.soon); }
  /// Whether images are read from a file block by block.
  bool in_blocks() const { return source_ && source_->block_images() > 0; }
  /// Augmented first, where `augmenter` is given. One thread at a time.
  void write(std::span<const std::uint64_t> samples, const tensor::Tensor& x,
             const data::Augmenter* augmenter = nullptr) const;
  void write_labels(std::span<const std::uint64_t> samples, const tensor::Tensor& labels) const;

 private:
  std::unique_ptr<data::ImageSource> source_;
  std::optional<data::ImageNormaliser<float>> float32_;
  std::optional<data::ImageNormaliser<double>> float64_;
};

/// What is done to training images at random, and what with.
struct Augmenting {
  data::Augmentation augmentation;  ///< by default nothing
  std::uint64_t seed = 0;
};

/// Microbatches of training, in the order of the epoch that `order` was last prepared for.
class TrainingFeed final : public pipeline::Feed {
 public:
  TrainingFeed(const data::SampleOrder& order, const NormalisedImages& images,
               Augmenting augmenting = {})
      : order_(order), images_(images), augmenting_(augmenting) {}
  std::int64_t size(std::int64_t microbatch) const override {
    return order_.microbatch_size(microbatch);
  }
  std::int64_t group_size(std::int64_t group) const override { return order_.group_size(group); }
  std::span<const std::uint64_t> samples(std::int64_t microbatch) const override {
    return order_.microbatch(microbatch);
  }
  void write_input(std::int64_t microbatch, const tensor::Tensor& x) const override;
  void write_labels(std::int64_t microbatch, const tensor::Tensor& labels) const override;

 private:
  const data::SampleOrder& order_;
  const NormalisedImages& images_;
  Augmenting augmenting_;
};

/// Microbatches of an evaluation; those past the last sample, which fill up the last group, are
/// empty.
class EvaluationFeed final : public pipeline::Feed {
 public:
  EvaluationFeed(const data::EvaluationOrder& order, const NormalisedImages& images)
      : order_(order), images_(images) {}
  std::int64_t size(std::int64_t microbatch) const override {
    return static_cast<std::int64_t>(samples(microbatch).size());
  }
  std::int64_t group_size(std::int64_t) const override { return 1; }
  std::span<const std::uint64_t> samples(std::int64_t microbatch) const override {
    return microbatch < order_.microbatches() ? order_.microbatch(microbatch)
                                              : std::span<const std::uint64_t>{};
  }
  void write_input(std::int64_t microbatch, const tensor::Tensor& x) const override;
  void write_labels(std::int64_t microbatch, const tensor::Tensor& labels) const override;

 private:
  const data::EvaluationOrder& order_;
  const NormalisedImages& images_;
};

}  // namespace dynpipe::app
