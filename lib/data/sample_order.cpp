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

}  // namespace

SampleOrder::SampleOrder(std::int64_t samples, std::int64_t batch, std::int64_t microbatches,
                         std::uint64_t seed)
    : samples_(samples), batch_(batch), microbatches_(microbatches), seed_(seed) {
  if (samples < 1 || samples > std::numeric_limits<std::uint32_t>::max() || batch < 1 ||
      microbatches < 1) {
    throw std::invalid_argument("an order needs samples, a batch and microbatches");
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
  order_.resize(static_cast<std::size_t>(samples_));
  std::iota(order_.begin(), order_.end(), std::uint64_t{0});
  const base::Philox random(seed_, "shuffle", static_cast<std::uint64_t>(epoch));
  for (std::size_t last = order_.size() - 1; last > 0; --last) {
    std::swap(order_[last], order_[random.below(last, last + 1)]);
  }
  epoch_ = epoch;
}

std::span<const std::uint64_t> SampleOrder::microbatch(std::int64_t microbatch) const {
  const std::int64_t group = microbatch / microbatches_;
  if (epoch_of_group(group) != epoch_) {
    throw std::logic_error("the epoch of this microbatch has not been prepared");
  }
  const std::int64_t part = microbatch % microbatches_;
  const std::int64_t size = group_size(group);
  const std::int64_t first = group % groups_per_epoch() * batch_ + part * (size / microbatches_) +
                             std::min(part, size % microbatches_);
  return slice(order_, first, microbatch_size(microbatch));
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
