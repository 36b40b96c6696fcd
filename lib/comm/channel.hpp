#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "device/device.hpp"

namespace dynpipe::comm {

/// What a message carries. Each payload is a stream of its own between two ranks.
enum class Payload : std::uint8_t {
  activation,      ///< index: microbatch
  gradient,        ///< of an activation; index: microbatch
  gradient_slice,  ///< of weights, to the replica that sums it; index: update group
  gradient_sum,    ///< of weights, back from it; index: update group
  metrics,         ///< a group's loss, to rank 0; index: update group
  stage_times,     ///< where a rank's time went, to rank 0; index: update group
  control,         ///< rank 0's word on how training goes on; index: update group
  receipt,         ///< what became of a rank's part of a checkpoint, to rank 0; index: update
  clock,           ///< what time it is; index: message of a comparison
};

constexpr Payload k_last_payload = Payload::clock;

/// The name of a message, for matching, for traces and for whoever waits too long.
struct MessageName {
  Payload payload;
  std::int64_t index;
  int from, to;

  /// "activation of microbatch 17 from rank 2 to rank 3"
  std::string to_string() const;
};

/// A message in flight. Valid until `retire`d.
using Ticket = std::size_t;

/// How a blocked rank spends its time: it spins for a while where cores are its own, then sleeps
/// between looks, so that a neighbour on the same core can work. Naps grow with the wait: short
/// ones wake fast, long ones cost little, and a long wait can bear to end a little later.
struct WaitPolicy {
  /// How long to spin where a core is free for it: longer than a message on a host takes.
  static constexpr double k_spin_on_own_core_s = 50e-6;

  double deadline_s = 300;
  double spin_s = 0;
  double nap_s = 50e-6;
  double longest_nap_s = 300e-6;
};

/// Named, non-blocking messages between ranks, and the only place where a rank waits.
///
/// A send and a receive match by name, equal names in the order of their posts. Memory handed over
/// stays the caller's and must stay as it is until the message is complete. Errors of the transport
/// and passed deadlines throw RunError / DeadlineError with the message's name.
class Channel {
 public:
  Channel(const base::Clock& clock, WaitPolicy policy) : clock_(clock), policy_(policy) {}
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  virtual int rank() const = 0;
  /// Post a send of `bytes` to name.to, to be read once `ready` is reached.
  virtual Ticket send(const MessageName& name, std::span<const std::byte> bytes,
                      const device::Event& ready) = 0;
  /// Post a receive from name.from into memory that is free once `free` is reached.
  virtual Ticket receive(const MessageName& name, std::span<std::byte> bytes,
                         const device::Event& free) = 0;
  /// Whether the message is complete; moves messages on. Never blocks.
  virtual bool test(Ticket ticket) = 0;
  /// Work launched on `stream` after this call finds the message complete.
  virtual void join(Ticket ticket, device::Stream& stream) = 0;
  /// Give back a ticket that is complete or joined.
  virtual void retire(Ticket ticket) = 0;
  /// Take back a receive whose message will never be sent, with its ticket.
  virtual void cancel(Ticket ticket) = 0;
  virtual MessageName name(Ticket ticket) const = 0;
  /// Move all messages in flight on a little.
  virtual void progress() = 0;

  /// Block the calling thread until the message is complete, then retire it.
  void wait(Ticket ticket);
  /// Block until `done()`, moving messages and helpers on. `what` names the wait for the report.
  template <typename Done, typename What>
  void wait_until(Done&& done, What&& what) {
    Patience patience(*this);
    while (!done()) patience.look_again([&] { return std::string(what()); });
  }

  /// Call `help` during every wait and poll, until `owner` is removed: work of this rank that
  /// others depend on while it is blocked.
  void add_helper(const void* owner, std::function<void()> help) {
    helpers_.emplace_back(owner, std::move(help));
  }
  void remove_helper(const void* owner) {
    std::erase_if(helpers_, [owner](const auto& helper) { return helper.first == owner; });
  }
  /// `progress` and all helpers: for between two layers.
  void poll();

 private:
  /// One wait: spins, then naps, then gives up.
  class Patience {
   public:
    explicit Patience(Channel& channel) : channel_(channel), began_s_(channel.clock_.now_s()) {}
    void look_again(const std::function<std::string()>& what);

   private:
    Channel& channel_;
    double began_s_;
  };

  const base::Clock& clock_;
  WaitPolicy policy_;
  std::vector<std::pair<const void*, std::function<void()>>> helpers_;
};

}  // namespace dynpipe::comm
