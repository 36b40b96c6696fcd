#pragma once

#include <cstdint>
#include <span>

#include "tensor/tensor.hpp"

namespace dynpipe::pipeline {

/// What a pipeline asks of the data: how large each microbatch is, and its content. Microbatches
/// are numbered k = g M + j through the whole run; sizes may be 0. Every rank has one; only the
/// first and the last stage ask for content. Writing is called in the order of a stream, possibly
/// on its thread.
class Feed {
 public:
  virtual ~Feed() = default;
  /// Samples in a microbatch.
  virtual std::int64_t size(std::int64_t microbatch) const = 0;
  /// Samples in an update group.
  virtual std::int64_t group_size(std::int64_t group) const = 0;
  /// Number in the data set of each sample of the microbatch; valid until the segment ends.
  virtual std::span<const std::uint64_t> samples(std::int64_t microbatch) const = 0;
  /// x [N, input of the model], plain.
  virtual void write_input(std::int64_t microbatch, const tensor::Tensor& x) const = 0;
  /// labels [N], int32.
  virtual void write_labels(std::int64_t microbatch, const tensor::Tensor& labels) const = 0;
};

}  // namespace dynpipe::pipeline
