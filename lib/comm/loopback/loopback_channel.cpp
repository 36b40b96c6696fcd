#include "comm/loopback/loopback_channel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <vector>

#include "base/random.hpp"
#include "device/fake/fake_device.hpp"

namespace dynpipe::comm {
namespace {

using device::Event;
using device::HostEvent;

constexpr int k_poison = 0xff;

/// One end of a message: its memory, when that may be touched, and what to tell when it is done.
struct End {
  std::span<std::byte> bytes;
  Event ready;
  std::shared_ptr<HostEvent> done = std::make_shared<HostEvent>();
};

/// Sends and receives of one name that have not met yet; at most one of the two is not empty.
struct Waiting {
  std::deque<End> sends, receives;
};

struct Delivery {
  End from, into;
  double not_before_s = 0;
  bool poisoned = false;
};

using Key = std::tuple<Payload, std::int64_t, int, int>;
Key key_of(const MessageName& name) {
  return {name.payload, name.index, name.from, name.to};
}

}  // namespace

class LoopbackHub::Courier {
 public:
  explicit Courier(LoopbackOptions options)
      : options_(options), delays_(options.seed, "courier"), thread_([this] { run(); }) {}
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;
  ~Courier() {
    close();
    thread_.join();
  }

  void close() {
    std::unique_lock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
    stopped_.wait(lock, [this] { return has_stopped_; });
    for (auto& [key, waiting] : waiting_) {
      for (auto* ends : {&waiting.sends, &waiting.receives}) {
        for (End& end : *ends) end.done->reach();
      }
    }
    waiting_.clear();
    reach_all(matched_);
  }

  const LoopbackOptions& options() const { return options_; }

  std::shared_ptr<HostEvent> post(const MessageName& name, End end, bool is_send) {
    std::shared_ptr<HostEvent> done = end.done;
    const std::lock_guard lock(mutex_);
    if (closing_) {
      done->reach();
      return done;
    }
    Waiting& waiting = waiting_[key_of(name)];
    auto& others = is_send ? waiting.receives : waiting.sends;
    if (others.empty()) {
      (is_send ? waiting.sends : waiting.receives).push_back(std::move(end));
      return done;
    }
    Delivery delivery;
    if (is_send) {
      delivery.from = std::move(end);
      delivery.into = std::move(others.front());
    } else {
      delivery.from = std::move(others.front());
      delivery.into = std::move(end);
    }
    others.pop_front();
    if (delivery.from.bytes.size() != delivery.into.bytes.size()) {
      throw std::logic_error(fmt::format("{}: {} bytes are sent, {} received", name.to_string(),
                                         delivery.from.bytes.size(), delivery.into.bytes.size()));
    }
    delivery.not_before_s =
        clock_.now_s() + delays_.uniform(deliveries_++) * options_.longest_delay_s;
    if (waiting.sends.empty() && waiting.receives.empty()) waiting_.erase(key_of(name));
    matched_.push_back(std::move(delivery));
    changed_.notify_one();
    return done;
  }

  /// Of a receive that has met no send.
  void withdraw(const MessageName& name, const std::shared_ptr<HostEvent>& done) {
    const std::lock_guard lock(mutex_);
    const auto waiting = waiting_.find(key_of(name));
    if (waiting == waiting_.end()) return;
    std::erase_if(waiting->second.receives, [&](const End& end) { return end.done == done; });
    if (waiting->second.sends.empty() && waiting->second.receives.empty()) waiting_.erase(waiting);
    done->reach();
  }

 private:
  /// Never blocks on one message: what another one waits for may stand behind it.
  void run() {
    std::list<Delivery> under_way;
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        if (under_way.empty()) {
          changed_.wait(lock, [this] { return closing_ || !matched_.empty(); });
        }
        if (closing_) {
          reach_all(under_way);
          has_stopped_ = true;
          stopped_.notify_all();
          return;
        }
        under_way.splice(under_way.end(), matched_);
      }
      const std::size_t before = under_way.size();
      under_way.remove_if([this](Delivery& delivery) { return deliver(delivery); });
      if (under_way.size() == before) std::this_thread::sleep_for(std::chrono::microseconds(5));
    }
  }

  static void reach_all(std::list<Delivery>& deliveries) {
    for (Delivery& delivery : deliveries) {
      delivery.from.done->reach();
      delivery.into.done->reach();
    }
    deliveries.clear();
  }

  bool deliver(Delivery& delivery) {
    const std::size_t bytes = delivery.into.bytes.size();
    if (!options_.ignore_free && !delivery.into.ready.reached()) return false;
    if (!delivery.poisoned && bytes > 0) {
      std::memset(delivery.into.bytes.data(), k_poison, delivery.into.bytes.size());
    }
    delivery.poisoned = true;
    if (!options_.ignore_ready && !delivery.from.ready.reached()) return false;
    if (clock_.now_s() < delivery.not_before_s) return false;
    if (bytes > 0) std::memcpy(delivery.into.bytes.data(), delivery.from.bytes.data(), bytes);
    delivery.from.done->reach();
    delivery.into.done->reach();
    return true;
  }

  LoopbackOptions options_;
  base::SteadyClock clock_;
  base::Philox delays_;
  std::mutex mutex_;
  std::condition_variable changed_, stopped_;
  std::map<Key, Waiting> waiting_;
  std::list<Delivery> matched_;
  std::uint64_t deliveries_ = 0;
  bool closing_ = false, has_stopped_ = false;
  std::thread thread_;  // last: it starts when all else is there
};

namespace {

class LoopbackChannel final : public Channel {
 public:
  LoopbackChannel(LoopbackHub::Courier& courier, int rank, const base::Clock& clock,
                  WaitPolicy policy)
      : Channel(clock, policy), courier_(courier), rank_(rank) {}

  int rank() const override { return rank_; }

  Ticket send(const MessageName& name, std::span<const std::byte> bytes,
              const Event& ready) override {
    // The courier only reads from it; one type for both ends keeps the matching plain.
    auto* data = const_cast<std::byte*>(bytes.data());
    return keep(name, courier_.post(name, {{data, bytes.size()}, ready}, true));
  }
  Ticket receive(const MessageName& name, std::span<std::byte> bytes, const Event& free) override {
    return keep(name, courier_.post(name, {bytes, free}, false));
  }
  bool test(Ticket ticket) override { return flights_[ticket].done->reached(); }
  void join(Ticket ticket, device::Stream& stream) override {
    if (courier_.options().skip_join) return;
    if (stream.immediate()) {
      wait_until([&] { return test(ticket); }, [&] { return name(ticket).to_string(); });
    } else {
      stream.wait(Event(flights_[ticket].done));
    }
  }
  void retire(Ticket ticket) override { free_.push_back(ticket); }
  void cancel(Ticket ticket) override {
    courier_.withdraw(flights_[ticket].name, flights_[ticket].done);
    retire(ticket);
  }
  MessageName name(Ticket ticket) const override { return flights_[ticket].name; }
  void progress() override {}

 private:
  struct Flight {
    MessageName name;
    std::shared_ptr<HostEvent> done;
  };

  Ticket keep(const MessageName& name, std::shared_ptr<HostEvent> done) {
    if (free_.empty()) {
      free_.push_back(flights_.size());
      flights_.emplace_back();
    }
    const Ticket ticket = free_.back();
    free_.pop_back();
    flights_[ticket] = {name, std::move(done)};
    return ticket;
  }

  LoopbackHub::Courier& courier_;
  int rank_;
  std::vector<Flight> flights_;
  std::vector<Ticket> free_;
};

}  // namespace

LoopbackHub::LoopbackHub(LoopbackOptions options) : courier_(std::make_unique<Courier>(options)) {}
LoopbackHub::~LoopbackHub() = default;
void LoopbackHub::close() {
  courier_->close();
}

std::unique_ptr<Channel> LoopbackHub::make_channel(int rank, const base::Clock& clock,
                                                   WaitPolicy policy) {
  return std::make_unique<LoopbackChannel>(*courier_, rank, clock, policy);
}

}  // namespace dynpipe::comm
