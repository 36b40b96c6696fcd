#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/shape.hpp"
#include "pipeline/feed.hpp"
#include "tensor/tensor.hpp"

namespace dynpipe::app {

/// Has the inputs of another feed written ahead by a thread, into a ring of so many microbatches,
/// while the pipeline computes. What is written is the same. An error of the thread is thrown where
/// the microbatch that it befell is asked for. The destructor ends the thread after the microbatch
/// that it is at, asked for or not.
class PrefetchedFeed final : public pipeline::Feed {
 public:
  struct Setup {
    std::vector<std::int64_t> microbatches;  ///< that will be asked for, in this order
    base::Shape image;                       ///< of one sample
    tensor::DType dtype = tensor::DType::float32;
    std::int64_t max_samples = 1;  ///< of a microbatch
    std::int64_t depth = 4;        ///< microbatches in the ring
    /// Blocks until `done()`, or throws when that takes too long for `what`; comm::Channel's
    /// wait_until.
    std::function<void(const std::function<bool()>& done, const std::function<std::string()>& what)>
        wait;
  };
  /// `feed` outlives this one; only its `write_input` is called by the thread.
  PrefetchedFeed(const pipeline::Feed& feed, Setup setup);
  ~PrefetchedFeed() override;
  PrefetchedFeed(const PrefetchedFeed&) = delete;
  PrefetchedFeed& operator=(const PrefetchedFeed&) = delete;

  std::int64_t size(std::int64_t microbatch) const override { return feed_.size(microbatch); }
  std::int64_t group_size(std::int64_t group) const override { return feed_.group_size(group); }
  std::span<const std::uint64_t> samples(std::int64_t microbatch) const override {
    return feed_.samples(microbatch);
  }
  void write_input(std::int64_t microbatch, const tensor::Tensor& x) const override;
  void write_labels(std::int64_t microbatch, const tensor::Tensor& labels) const override {
    feed_.write_labels(microbatch, labels);
  }

 private:
  using Slot = std::vector<std::byte>;
  /// What the thread and the pipeline tell each other.
  struct Ring {
    std::mutex mutex;
    std::condition_variable changed;     ///< `taken` or `stop`
    std::size_t written = 0, taken = 0;  ///< of setup_.microbatches
    bool stop = false;
    std::exception_ptr error;  ///< at microbatch number `written`
  };

  void run();
  /// Waits for room; false if the thread is to end.
  bool wait_for_room(std::size_t next) const;
  tensor::Tensor view(Slot& slot, std::int64_t microbatch) const;

  const pipeline::Feed& feed_;
  Setup setup_;
  mutable std::vector<Slot> slots_;
  mutable Ring ring_;
  std::thread thread_;
};

}  // namespace dynpipe::app
