#include "device/fake/fake_device.hpp"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <thread>

#include "base/random.hpp"

namespace dynpipe::device {
namespace {

constexpr std::align_val_t k_alignment{64};
constexpr int k_poison = 0xff;  // a NaN as float32 and as float64, -1 as int32

class FakeStream final : public Stream {
 public:
  FakeStream(FakeDeviceOptions options, std::string_view name)
      : pauses_(options.seed, name),
        longest_pause_s_(options.longest_pause_s),
        thread_([this] { work_through(); }) {}
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;
  ~FakeStream() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  bool immediate() const override { return false; }

  void enqueue(std::function<void()> work) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(work));
    }
    changed_.notify_one();
  }

  Event record() override {
    auto event = std::make_shared<HostEvent>();
    enqueue([event] { event->reach(); });
    return Event(event);
  }

  void wait(const Event& event) override {
    enqueue([event] { wait_for(event); });
  }

  void discard(void* data, std::size_t bytes) override {
    enqueue([data, bytes] { std::memset(data, k_poison, bytes); });
  }

 private:
  void work_through() {
    for (std::uint64_t count = 0;; ++count) {
      std::function<void()> work;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
        if (queue_.empty()) return;
        work = std::move(queue_.front());
        queue_.pop_front();
      }
      pause(count);
      work();
    }
  }

  void pause(std::uint64_t count) const {
    // One piece of work in four: enough to overtake every neighbour sometimes, cheap enough to test
    // hundreds of plans.
    if (pauses_.below(2 * count, 4) == 0 && longest_pause_s_ > 0) {
      const double seconds = pauses_.uniform(2 * count + 1) * longest_pause_s_;
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    } else {
      std::this_thread::yield();
    }
  }

  base::Philox pauses_;
  double longest_pause_s_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool closing_ = false;
  std::thread thread_;  // last: it starts when all else is there
};

}  // namespace

struct HostEvent::Impl {
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  bool reached = false;
};

HostEvent::HostEvent() : impl_(std::make_unique<Impl>()) {}
HostEvent::~HostEvent() = default;

bool HostEvent::reached() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->reached;
}

void HostEvent::wait() const {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [this] { return impl_->reached; });
}

void HostEvent::reach() {
  const std::lock_guard lock(impl_->mutex);
  impl_->reached = true;
  impl_->changed.notify_all();
}

void wait_for(const Event& event) {
  if (const auto* state = dynamic_cast<const HostEvent*>(event.state().get())) state->wait();
}

Buffer FakeDevice::allocate(std::size_t bytes) {
  auto* data = static_cast<std::byte*>(::operator new(aligned(bytes), k_alignment));
  std::memset(data, k_poison, aligned(bytes));
  return {data, bytes, [](std::byte* owned) { ::operator delete(owned, k_alignment); }};
}

std::unique_ptr<Stream> FakeDevice::make_stream(std::string_view name) {
  return std::make_unique<FakeStream>(options_, name);
}

}  // namespace dynpipe::device
