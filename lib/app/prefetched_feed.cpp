#include "app/prefetched_feed.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace dynpipe::app {

PrefetchedFeed::PrefetchedFeed(const pipeline::Feed& feed, Setup setup)
    : feed_(feed), setup_(std::move(setup)) {
  const auto slots = std::min(static_cast<std::size_t>(std::max<std::int64_t>(setup_.depth, 1)),
                              setup_.microbatches.size());
  const std::int64_t elements = setup_.max_samples * setup_.image.elements();
  slots_.assign(slots, Slot(static_cast<std::size_t>(elements) * tensor::size_of(setup_.dtype)));
  thread_ = std::thread([this] { run(); });
}

PrefetchedFeed::~PrefetchedFeed() {
  {
    const std::scoped_lock lock(ring_.mutex);
    ring_.stop = true;
  }
  ring_.changed.notify_all();
  thread_.join();
}

tensor::Tensor PrefetchedFeed::view(Slot& slot, std::int64_t microbatch) const {
  return {slot.data(), setup_.dtype, tensor::Layout::plain,
          setup_.image.with_batch(feed_.size(microbatch))};
}

bool PrefetchedFeed::wait_for_room(std::size_t next) const {
  std::unique_lock lock(ring_.mutex);
  ring_.changed.wait(lock, [&] { return ring_.stop || next - ring_.taken < slots_.size(); });
  return !ring_.stop;
}

void PrefetchedFeed::run() {
  try {
    for (std::size_t next = 0; next < setup_.microbatches.size(); ++next) {
      if (!wait_for_room(next)) return;
      const std::int64_t microbatch = setup_.microbatches[next];
      feed_.write_input(microbatch, view(slots_[next % slots_.size()], microbatch));
      const std::scoped_lock lock(ring_.mutex);
      ++ring_.written;
    }
  } catch (...) {
    const std::scoped_lock lock(ring_.mutex);
    ring_.error = std::current_exception();
  }
}

void PrefetchedFeed::write_input(std::int64_t microbatch, const tensor::Tensor& x) const {
  std::size_t number = 0;
  {
    const std::scoped_lock lock(ring_.mutex);
    number = ring_.taken;
  }
  if (number >= setup_.microbatches.size() || setup_.microbatches[number] != microbatch) {
    throw std::logic_error("a microbatch was asked for out of the order that was announced");
  }
  setup_.wait(
      [this, number] {
        const std::scoped_lock lock(ring_.mutex);
        if (ring_.written == number && ring_.error) std::rethrow_exception(ring_.error);
        return ring_.written > number;
      },
      [microbatch] { return fmt::format("the images of microbatch {} to be read", microbatch); });
  const tensor::Tensor ready = view(slots_[number % slots_.size()], microbatch);
  if (ready.bytes() > 0) std::memcpy(x.data, ready.data, ready.bytes());
  {
    const std::scoped_lock lock(ring_.mutex);
    ++ring_.taken;
  }
  ring_.changed.notify_one();
}

}  // namespace dynpipe::app
