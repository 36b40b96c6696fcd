#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace dynpipe::data {

/// How far shuffling carries samples that are read from a file block by block: the blocks are
/// shuffled, then the samples of each run of `blocks` of them. By default: over the whole set.
struct ShuffleWindow {
  std::int64_t block_samples = 0;  ///< consecutive samples read together; 0: the whole set
  std::int64_t blocks = 0;         ///< mixed with one another

  friend bool operator==(const ShuffleWindow&, const ShuffleWindow&) = default;
};

/// The blocks that reading a microbatch has to do with; see ImageSource::use_blocks.
struct BlockUse {
  std::span<const std::uint64_t> now;   ///< of its window
  std::span<const std::uint64_t> soon;  ///< of the next window, as many as keep reading even
};

/// Which samples each microbatch of a training run holds. A function of the numbers below alone:
/// any rank, plan or resumed run finds the same answer. Update group g is the g-th global batch
/// since the run began, microbatch k = g*M + j the j-th of its M parts.
///
/// An epoch visits each sample once, in an order of its own; its last group has what is left over.
/// M divides a group of n samples into parts of floor(n/M) and, first, ceil(n/M) samples, which may
/// be 0. Where the window holds all blocks, the order is that of a set without blocks.
class SampleOrder {
 public:
  /// N `samples` (1 to 2^32-1), `batch` samples and `microbatches` M a group, all at least 1.
  SampleOrder(std::int64_t samples, std::int64_t batch, std::int64_t microbatches,
              std::uint64_t seed, ShuffleWindow window = {});

  std::int64_t samples() const { return samples_; }
  std::int64_t microbatches() const { return microbatches_; }
  /// ceil(N / batch)
  std::int64_t groups_per_epoch() const;
  std::int64_t epoch_of_group(std::int64_t group) const;
  /// Number of samples of an update group.
  std::int64_t group_size(std::int64_t group) const;
  /// Number of samples of a microbatch.
  std::int64_t microbatch_size(std::int64_t microbatch) const;

  /// Shuffles the samples for `epoch` (Fisher-Yates, blocks first), in place of those of the epoch
  /// before.
  void prepare(std::int64_t epoch);
  /// The samples of a microbatch of the epoch last prepared, each in 0 .. N-1. Throws
  /// std::logic_error for one of another epoch. Valid until `prepare`; until then any number of
  /// threads may ask.
  std::span<const std::uint64_t> microbatch(std::int64_t microbatch) const;
  /// Nothing where the window is the whole set. Same conditions as `microbatch`.
  BlockUse blocks(std::int64_t microbatch) const;

 private:
  /// Position of a microbatch's first sample in its epoch.
  std::int64_t position(std::int64_t microbatch) const;
  void shuffle_windows(std::int64_t epoch);
  void append_block(std::uint64_t block);

  std::int64_t samples_;
  std::int64_t batch_;
  std::int64_t microbatches_;
  std::uint64_t seed_;
  ShuffleWindow window_;
  std::int64_t epoch_ = -1;
  std::vector<std::uint64_t> order_;
  std::vector<std::uint64_t> block_order_;  ///< empty: the window is the whole set
  std::vector<std::int64_t> window_ends_;   ///< positions in order_
};

/// The samples of an evaluation: 0 .. N-1 as they come, in microbatches of one size but the last.
class EvaluationOrder {
 public:
  /// `samples` at least 0, `microbatch_size` at least 1.
  EvaluationOrder(std::int64_t samples, std::int64_t microbatch_size);

  /// Number of microbatches.
  std::int64_t microbatches() const;
  std::span<const std::uint64_t> microbatch(std::int64_t microbatch) const;

 private:
  std::int64_t microbatch_size_;
  std::vector<std::uint64_t> order_;
};

}  // namespace dynpipe::data
