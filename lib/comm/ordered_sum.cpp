#include "comm/ordered_sum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace dynpipe::comm {
namespace {

/// total = sum of parts[0..count), in that order; total may be one of them.
template <typename T>
void sum_in_order(std::span<const std::byte* const> parts, std::byte* total, std::size_t count) {
  auto* sum = reinterpret_cast<T*>(total);
  for (std::size_t i = 0; i < count; ++i) {
    T value = reinterpret_cast<const T*>(parts[0])[i];
    for (std::size_t r = 1; r < parts.size(); ++r) {
      value += reinterpret_cast<const T*>(parts[r])[i];
    }
    sum[i] = value;
  }
}

}  // namespace

OrderedSum::OrderedSum(Channel& channel, device::Device& device, std::vector<int> ranks,
                       tensor::DType dtype, std::int64_t elements, int in_flight)
    : channel_(channel),
      ranks_(std::move(ranks)),
      self_(static_cast<std::size_t>(std::find(ranks_.begin(), ranks_.end(), channel.rank()) -
                                     ranks_.begin())),
      dtype_(dtype),
      elements_(elements),
      sums_(static_cast<std::size_t>(in_flight)),
      stream_(device.make_stream("reduce")) {
  for (Sum& sum : sums_) {
    sum.others = device.allocate(slice_of(self_).bytes * (ranks_.size() - 1));
    sum.arrivals.reserve(ranks_.size());
    sum.departures.reserve(2 * ranks_.size());
    sum.parts.reserve(ranks_.size());
  }
  channel_.add_helper(this, [this] { help(); });
}

OrderedSum::~OrderedSum() {
  channel_.remove_helper(this);
}

OrderedSum::Slice OrderedSum::slice_of(std::size_t replica, std::size_t replicas,
                                       std::int64_t elements, tensor::DType dtype) {
  const auto count = static_cast<std::int64_t>(replicas);
  const auto r = static_cast<std::int64_t>(replica);
  const std::int64_t begin = elements * r / count;
  const std::int64_t end = elements * (r + 1) / count;
  const std::size_t size = tensor::size_of(dtype);
  return {static_cast<std::size_t>(begin) * size, static_cast<std::size_t>(end - begin) * size};
}

OrderedSum::Slice OrderedSum::slice_of(std::size_t replica) const {
  return slice_of(replica, ranks_.size(), elements_, dtype_);
}

std::size_t OrderedSum::bytes_a_sum(int self, int replicas, std::int64_t elements,
                                    tensor::DType dtype) {
  const auto count = static_cast<std::size_t>(replicas);
  return slice_of(static_cast<std::size_t>(self), count, elements, dtype).bytes * (count - 1);
}

void OrderedSum::start(std::int64_t group, std::byte* buffer, const device::Event& ready) {
  const auto idle = std::find_if(sums_.begin(), sums_.end(),
                                 [](const Sum& sum) { return sum.phase == Phase::idle; });
  if (idle == sums_.end()) throw std::logic_error("more groups are summed at once than announced");
  Sum& sum = *idle;
  sum.phase = Phase::collecting;
  sum.group = group;
  sum.buffer = buffer;
  sum.ready = ready;
  const Slice mine = slice_of(self_);
  std::byte* into = sum.others.data();
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (r == self_) continue;
    sum.arrivals.push_back(channel_.receive(
        {Payload::gradient_slice, group, ranks_[r], ranks_[self_]}, {into, mine.bytes}, {}));
    into += mine.bytes;
    const Slice theirs = slice_of(r);
    sum.departures.push_back(
        channel_.send({Payload::gradient_slice, group, ranks_[self_], ranks_[r]},
                      {buffer + theirs.offset, theirs.bytes}, ready));
  }
}

bool OrderedSum::all_complete(std::vector<Ticket>& tickets) {
  return std::all_of(tickets.begin(), tickets.end(),
                     [this](Ticket ticket) { return channel_.test(ticket); });
}

void OrderedSum::add_up(Sum& sum) {
  const Slice mine = slice_of(self_);
  sum.parts.clear();
  const std::byte* other = sum.others.data();
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    sum.parts.push_back(r == self_ ? sum.buffer + mine.offset : other);
    if (r != self_) other += mine.bytes;
  }
  std::byte* total = sum.buffer + mine.offset;
  const std::size_t count = mine.bytes / tensor::size_of(dtype_);
  stream_->wait(sum.ready);
  device::launch(*stream_, [parts = std::span(sum.parts), total, count, dtype = dtype_] {
    if (dtype == tensor::DType::float64) {
      sum_in_order<double>(parts, total, count);
    } else {
      sum_in_order<float>(parts, total, count);
    }
  });
}

void OrderedSum::help() {
  for (Sum& sum : sums_) advance(sum);
}

void OrderedSum::advance(Sum& sum) {
  if (sum.phase == Phase::collecting && all_complete(sum.arrivals) &&
      all_complete(sum.departures)) {
    for (Ticket ticket : sum.arrivals) {
      channel_.join(ticket, *stream_);
      channel_.retire(ticket);
    }
    for (Ticket ticket : sum.departures) channel_.retire(ticket);
    sum.arrivals.clear();
    sum.departures.clear();
    add_up(sum);
    const device::Event summed = stream_->record();
    const Slice mine = slice_of(self_);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (r == self_) continue;
      const Slice theirs = slice_of(r);
      sum.arrivals.push_back(
          channel_.receive({Payload::gradient_sum, sum.group, ranks_[r], ranks_[self_]},
                           {sum.buffer + theirs.offset, theirs.bytes}, {}));
      sum.departures.push_back(
          channel_.send({Payload::gradient_sum, sum.group, ranks_[self_], ranks_[r]},
                        {sum.buffer + mine.offset, mine.bytes}, summed));
    }
    sum.phase = Phase::distributing;
  }
  if (sum.phase == Phase::distributing && all_complete(sum.arrivals) &&
      all_complete(sum.departures)) {
    sum.phase = Phase::done;
  }
}

void OrderedSum::wait(std::int64_t group, device::Stream& stream) {
  const auto found = std::find_if(sums_.begin(), sums_.end(), [group](const Sum& sum) {
    return sum.phase != Phase::idle && sum.group == group;
  });
  if (found == sums_.end()) throw std::logic_error("a sum is awaited that was not started");
  Sum& sum = *found;
  channel_.wait_until(
      [&] {
        advance(sum);
        return sum.phase == Phase::done;
      },
      [&] {
        for (Ticket ticket : sum.arrivals) {
          if (!channel_.test(ticket)) return channel_.name(ticket).to_string();
        }
        return fmt::format("the other replicas to take the gradients of update {}", group);
      });
  for (Ticket ticket : sum.arrivals) {
    channel_.join(ticket, stream);
    channel_.retire(ticket);
  }
  for (Ticket ticket : sum.departures) channel_.retire(ticket);
  sum.arrivals.clear();
  sum.departures.clear();
  stream.wait(stream_->record());
  sum.phase = Phase::idle;
}

}  // namespace dynpipe::comm
