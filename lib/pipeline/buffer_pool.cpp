#include "pipeline/buffer_pool.hpp"

#include <stdexcept>

namespace dynpipe::pipeline {

BufferPool::BufferPool(std::string what, device::Device& device, const Buffers& buffers)
    : what_(std::move(what)), bytes_(buffers.bytes) {
  for (int i = 0; i < buffers.count; ++i) {
    buffers_.push_back(device.allocate(buffers.bytes));
    returned_.push_back({static_cast<std::size_t>(i), {}, std::nullopt});
  }
  here_ = returned_.size();
}

BufferPool::Lease BufferPool::acquire(comm::Channel& channel, device::Stream& stream) {
  if (here_ == 0) throw std::logic_error("the schedule needs more " + what_ + " than it said");
  const Returned next = std::move(returned_[first_]);
  first_ = (first_ + 1) % returned_.size();
  --here_;
  std::byte* data = buffers_[next.index].data();
  if (!next.departing) return {next.index, data, next.free};
  channel.wait(*next.departing);
  stream.discard(data, bytes_);
  return {next.index, data, stream.record()};
}

void BufferPool::release(const Lease& lease, device::Stream& stream,
                         std::optional<comm::Ticket> departing) {
  // A message still leaving reads the buffer outside the stream's order: `acquire` discards it
  // then.
  if (!departing) stream.discard(lease.data, bytes_);
  returned_[(first_ + here_) % returned_.size()] = {lease.index, stream.record(), departing};
  ++here_;
}

void BufferPool::settle(comm::Channel& channel) {
  for (std::size_t i = 0; i < here_; ++i) {
    Returned& returned = returned_[(first_ + i) % returned_.size()];
    if (returned.departing) channel.wait(*returned.departing);
    returned.departing.reset();
  }
}

}  // namespace dynpipe::pipeline
