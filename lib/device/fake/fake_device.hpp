#pragma once

#include <cstdint>

#include "device/device.hpp"

namespace dynpipe::device {

/// A CPU that behaves as badly as an accelerator may: every stream is a thread that works through
/// its queue after random pauses, and memory that holds nothing yet, or no longer, is NaN. A
/// missing event or a buffer used again too early shows as a wrong number on any machine.
struct FakeDeviceOptions {
  std::uint64_t seed = 1;
  /// Largest pause before a piece of work; the pauses are uniform below it. 0: yield only.
  double longest_pause_s = 50e-6;
};

class FakeDevice final : public Device {
 public:
  explicit FakeDevice(FakeDeviceOptions options) : options_(options) {}
  Buffer allocate(std::size_t bytes) override;
  /// The stream's destructor finishes what was launched.
  std::unique_ptr<Stream> make_stream(std::string_view name) override;
  std::string description() const override { return "fake"; }

 private:
  FakeDeviceOptions options_;
};

/// An event that host code reaches by hand: what a channel gives for a message in flight.
class HostEvent final : public Event::State {
 public:
  HostEvent();
  ~HostEvent() override;
  bool reached() const override;
  void wait() const;  ///< blocks the calling thread
  void reach();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Blocks the calling thread until the event, made by a fake stream or a HostEvent, is reached.
void wait_for(const Event& event);

}  // namespace dynpipe::device
