#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/channel.hpp"
#include "tensor/tensor.hpp"

namespace dynpipe::comm {

/// Sums buffers over the replicas of a stage without blocking, each element in the order of
/// `ranks`, so that every replica gets the same bits in every run.
///
/// Replica r sums slice r of everybody's buffer (reduce-scatter) and sends the sum to all
/// (all-gather): 2 (R-1)/R of the buffer leave each rank, the least there is. The second half needs
/// this rank's hand, so the object helps along whenever its channel waits or polls.
class OrderedSum {
 public:
  /// `ranks`: the replicas, this one among them, same order on all. `elements` of `dtype`: the
  /// length of every buffer. `in_flight`: how many groups may be summed at once.
  OrderedSum(Channel& channel, device::Device& device, std::vector<int> ranks, tensor::DType dtype,
             std::int64_t elements, int in_flight);

  /// Memory of one of the `in_flight` on replica `self` of so many.
  static std::size_t bytes_a_sum(int self, int replicas, std::int64_t elements,
                                 tensor::DType dtype);

  ~OrderedSum();
  OrderedSum(const OrderedSum&) = delete;
  OrderedSum& operator=(const OrderedSum&) = delete;

  /// Start summing `buffer` in place, to be read once `ready` is reached; never blocks. Groups are
  /// started in the same order on every replica.
  void start(std::int64_t group, std::byte* buffer, const device::Event& ready);
  /// Block until the group's sum is in its buffer, for host and `stream` alike.
  void wait(std::int64_t group, device::Stream& stream);

 private:
  enum class Phase { idle, collecting, distributing, done };
  struct Slice {
    std::size_t offset, bytes;
  };
  struct Sum {
    Phase phase = Phase::idle;
    std::int64_t group = -1;
    std::byte* buffer = nullptr;
    device::Buffer others;         ///< [R-1] slices, this replica's part of the others' buffers
    std::vector<Ticket> arrivals;  ///< that the phase waits for
    std::vector<Ticket> departures;
    device::Event ready;
    std::vector<const std::byte*> parts;  ///< of this slice, in the order of ranks
  };

  static Slice slice_of(std::size_t replica, std::size_t replicas, std::int64_t elements,
                        tensor::DType dtype);
  Slice slice_of(std::size_t replica) const;
  void help();
  void advance(Sum& sum);
  void add_up(Sum& sum);
  bool all_complete(std::vector<Ticket>& tickets);

  Channel& channel_;
  std::vector<int> ranks_;
  std::size_t self_;
  tensor::DType dtype_;
  std::int64_t elements_;
  std::vector<Sum> sums_;
  std::unique_ptr<device::Stream> stream_;  ///< last: what it still runs uses the rest
};

}  // namespace dynpipe::comm
