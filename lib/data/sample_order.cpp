#include "data/sample_order.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/random.hpp"

namespace dynpipe::data {
namespace {

std::int64_t divided_up(std::int64_t dividend, std::int64_t divisor) {
  return (dividend + divisor - 1) / divisor;
}

std::span<const std::uint64_t> slice(const std::vector<std::uint64_t>& order, std::int64_t first,
                                     std::int64_t count) {
  return std::span(order).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

std::vector<std::uint64_t> counted(std::int64_t count) {
  std::vector<std::uint64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
  return numbers;
}

/// Fisher-Yates; `draws_from` makes the draws of one range differ from another's.
void shuffle(std::span<std::uint64_t> numbers, const base::Philox& random, std::size_t draws_from) {
  for (std::size_t last = numbers.size() - 1; last > 0; --last) {
    std::swap(numbers[last], numbers[random.below(draws_from + last, last + 1)]);
  }
}

}  // namespace

SampleOrder::SampleOrder(std::int64_t samples, std::int64_t batch, std::int64_t microbatches,
                         std::uint64_t seed, ShuffleWindow window)
    : samples_(samples), batch_(batch), microbatches_(microbatches), seed_(seed), window_(window) {
  if (samples < 1 || samples > std::numeric_limits<std::uint32_t>::max() || batch < 1 ||
      microbatches < 1) {
    throw std::invalid_argument("an order needs samples, a batch and microbatches");
  }
  if (window.block_samples < 0 || (window.block_samples > 0 && window.blocks < 1)) {
    throw std::invalid_argument("a window holds at least one block");
  }
  if (window.block_samples > 0) {
    const std::int64_t blocks = divided_up(samples, window.block_samples);
    if (window.blocks >= blocks) window_ = {};
  }
}

std::int64_t SampleOrder::groups_per_epoch() const {
  return divided_up(samples_, batch_);
}

std::int64_t SampleOrder::epoch_of_group(std::int64_t group) const {
  return group / groups_per_epoch();
}

std::int64_t SampleOrder::group_size(std::int64_t group) const {
  const std::int64_t first = group % groups_per_epoch() * batch_;
  return std::min(batch_, samples_ - first);
}

std::int64_t SampleOrder::microbatch_size(std::int64_t microbatch) const {
  const std::int64_t size = group_size(microbatch / microbatches_);
  const std::int64_t part = microbatch % microbatches_;
  return size / microbatches_ + (part < size % microbatches_ ? 1 : 0);
}

void SampleOrder::prepare(std::int64_t epoch) {
  if (epoch == epoch_) return;
  if (window_.block_samples > 0) {
    shuffle_windows(epoch);
  } else {
    order_ = counted(samples_);
    shuffle(order_, base::Philox(seed_, "shuffle", static_cast<std::uint64_t>(epoch)), 0);
  }
  epoch_ = epoch;
}

void SampleOrder::shuffle_windows(std::int64_t epoch) {
  const base::Philox of_blocks(seed_, "shuffle blocks", static_cast<std::uint64_t>(epoch));
  const base::Philox of_samples(seed_, "shuffle", static_cast<std::uint64_t>(epoch));
  block_order_ = counted(divided_up(samples_, window_.block_samples));
  shuffle(block_order_, of_blocks, 0);
  order_.clear();
  window_ends_.clear();
  const auto blocks = static_cast<std::size_t>(window_.blocks);
  for (std::size_t first = 0; first < block_order_.size(); first += blocks) {
    const std::size_t begin = order_.size();
    const std::size_t last = std::min(first + blocks, block_order_.size());
    for (std::size_t block = first; block < last; ++block) append_block(block_order_[block]);
    shuffle(std::span(order_).subspan(begin), of_samples, begin);
    window_ends_.push_back(std::ssize(order_));
  }
}

void SampleOrder::append_block(std::uint64_t block) {
  const std::int64_t first = static_cast<std::int64_t>(block) * window_.block_samples;
  const std::int64_t end = std::min(first + window_.block_samples, samples_);
  for (std::int64_t i = first; i < end; ++i) order_.push_back(static_cast<std::uint64_t>(i));
}

std::int64_t SampleOrder::position(std::int64_t microbatch) const {
  const std::int64_t group = microbatch / microbatches_;
  if (epoch_of_group(group) != epoch_) {
    throw std::logic_error("the epoch of this microbatch has not been prepared");
  }
  const std::int64_t part = microbatch % microbatches_;
  const std::int64_t size = group_size(group);
  return group % groups_per_epoch() * batch_ + part * (size / microbatches_) +
         std::min(part, size % microbatches_);
}

std::span<const std::uint64_t> SampleOrder::microbatch(std::int64_t microbatch) const {
  return slice(order_, position(microbatch), microbatch_size(microbatch));
}

BlockUse SampleOrder::blocks(std::int64_t microbatch) const {
  const std::int64_t at = position(microbatch);
  if (block_order_.empty() || at >= samples_) return {};
  const auto end = std::upper_bound(window_ends_.begin(), window_ends_.end(), at);
  const std::int64_t begin = end == window_ends_.begin() ? 0 : *(end - 1);
  const std::int64_t first = (end - window_ends_.begin()) * window_.blocks;
  const std::int64_t all = std::ssize(block_order_);
  const std::int64_t now = std::min(window_.blocks, all - first);
  const std::int64_t next = std::min(window_.blocks, all - first - now);
  // As far through the next window's blocks as the microbatch's end is through this one's samples.
  const std::int64_t done = std::min(at + microbatch_size(microbatch), *end) - begin;
  const std::int64_t soon = divided_up(next * done, *end - begin);
  return {slice(block_order_, first, now), slice(block_order_, first + now, soon)};
}

EvaluationOrder::EvaluationOrder(std::int64_t samples, std::int64_t microbatch_size)
    : microbatch_size_(microbatch_size), order_(static_cast<std::size_t>(samples)) {
  if (microbatch_size < 1) throw std::invalid_argument("a microbatch holds at least one sample");
  std::iota(order_.begin(), order_.end(), std::uint64_t{0});
}

std::int64_t EvaluationOrder::microbatches() const {
  return divided_up(static_cast<std::int64_t>(order_.size()), microbatch_size_);
}

std::span<const std::uint64_t> EvaluationOrder::microbatch(std::int64_t microbatch) const {
  const std::int64_t first = microbatch * microbatch_size_;
  const std::int64_t left = static_cast<std::int64_t>(order_.size()) - first;
  return slice(order_, first, std::min(microbatch_size_, left));
}

}  // namespace dynpipe::data
