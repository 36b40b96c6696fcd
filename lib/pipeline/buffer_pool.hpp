#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "comm/channel.hpp"
#include "device/device.hpp"

namespace dynpipe::pipeline {

/// Equal buffers: how many, how large.
struct Buffers {
  std::size_t bytes = 0;  ///< of one
  int count = 0;

  std::size_t total() const { return bytes * static_cast<std::size_t>(count); }
};

/// A fixed number of equal buffers that take turns. A buffer comes back with what still uses it: an
/// event of the stream that worked on it, and perhaps a message that leaves from it.
class BufferPool {
 public:
  struct Lease {
    std::size_t index = 0;
    std::byte* data = nullptr;
    /// The buffer may be written once this is reached (work on the stream that gave it back need
    /// not wait).
    device::Event free;
  };

  /// `what` names the buffers in messages.
  BufferPool(std::string what, device::Device& device, const Buffers& buffers);

  /// The buffer that has been back for longest. Blocks until the message that last left from it is
  /// gone. Throws std::logic_error if all are out: the schedule's footprint was wrong.
  Lease acquire(comm::Channel& channel, device::Stream& stream);
  /// Give a buffer back; its content is discarded in the order of `stream`.
  void release(const Lease& lease, device::Stream& stream,
               std::optional<comm::Ticket> departing = std::nullopt);
  /// Block until every message that left from a buffer is gone.
  void settle(comm::Channel& channel);
  std::size_t bytes() const { return bytes_; }
  std::size_t size() const { return buffers_.size(); }
  /// Of the buffer of that index in a lease.
  std::byte* data(std::size_t index) const { return buffers_[index].data(); }

 private:
  struct Returned {
    std::size_t index;
    device::Event free;
    std::optional<comm::Ticket> departing;
  };

  std::string what_;
  std::size_t bytes_;
  std::vector<device::Buffer> buffers_;
  /// The buffers that are here, the longest first: a ring of `here_` from `first_` on.
  std::vector<Returned> returned_;
  std::size_t first_ = 0, here_ = 0;
};

}  // namespace dynpipe::pipeline
