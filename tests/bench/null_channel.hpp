#pragma once

#include <set>

#include "comm/channel.hpp"

namespace dynpipe::bench {

/// Messages that are complete as soon as they are posted: what a rank does without any pipeline
/// around it. What is received is whatever was there, zero the first time.
class NullChannel final : public comm::Channel {
 public:
  NullChannel(int rank, const base::Clock& clock) : Channel(clock, {}), rank_(rank) {}
  int rank() const override { return rank_; }
  comm::Ticket send(const comm::MessageName&, std::span<const std::byte>,
                    const device::Event&) override {
    return 0;
  }
  comm::Ticket receive(const comm::MessageName&, std::span<std::byte> bytes,
                       const device::Event&) override {
    if (seen_.insert(bytes.data()).second) {
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
    }
    return 0;
  }
  bool test(comm::Ticket) override { return true; }
  void join(comm::Ticket, device::Stream&) override {}
  void retire(comm::Ticket) override {}
  void cancel(comm::Ticket) override {}
  comm::MessageName name(comm::Ticket) const override { return {}; }
  void progress() override {}

 private:
  int rank_;
  std::set<std::byte*> seen_;
};

}  // namespace dynpipe::bench
