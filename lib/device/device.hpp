#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace dynpipe::device {

/// A moment in a stream's order of work: reached once all work launched before it is done.
/// Cheap to copy. A default-made event is reached already.
class Event {
 public:
  struct State {
    virtual ~State() = default;
    virtual bool reached() const = 0;
  };

  Event() = default;
  explicit Event(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  bool reached() const { return !state_ || state_->reached(); }
  const std::shared_ptr<const State>& state() const { return state_; }

 private:
  std::shared_ptr<const State> state_;
};

/// An in-order queue of work on a device. Everything asynchronous names the stream it runs on; two
/// streams are ordered by events alone.
class Stream {
 public:
  virtual ~Stream() = default;
  /// True when `launch` runs the work before it returns (plain CPU): no closure is then stored.
  virtual bool immediate() const = 0;
  /// Queue `work`. What it refers to must stay alive and unchanged until it has run.
  virtual void enqueue(std::function<void()> work) = 0;
  /// The moment after all work launched so far.
  virtual Event record() = 0;
  /// Work launched from now on starts after `event`.
  virtual void wait(const Event& event) = 0;
  /// The content of this memory is dead in this stream's order. The fake device poisons it there,
  /// so that whoever reads it too late, or before it is written again, computes NaN; others do
  /// nothing.
  virtual void discard(void* data, std::size_t bytes) = 0;
};

/// Run `work()` on the stream, without storing it where the stream is immediate.
template <typename Work>
void launch(Stream& stream, Work&& work) {
  if (stream.immediate()) {
    work();
  } else {
    stream.enqueue(std::forward<Work>(work));
  }
}

/// Device memory, owned. Aligned to 64 bytes.
class Buffer {
 public:
  using Deleter = std::function<void(std::byte*)>;

  Buffer() = default;
  Buffer(std::byte* data, std::size_t bytes, Deleter deleter)
      : data_(data, std::move(deleter)), bytes_(bytes) {}
  std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<std::byte, Deleter> data_{nullptr, [](std::byte*) {}};
  std::size_t bytes_ = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  /// Memory of undefined content (NaN on the fake device).
  virtual Buffer allocate(std::size_t bytes) = 0;
  virtual std::unique_ptr<Stream> make_stream(std::string_view name) = 0;
  /// For people: "cpu", "fake".
  virtual std::string description() const = 0;
};

/// `bytes` rounded up to the alignment of buffers (64).
constexpr std::size_t aligned(std::size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

}  // namespace dynpipe::device
