#include "device/cpu/cpu_device.hpp"

#include <new>

namespace dynpipe::device {
namespace {

constexpr std::align_val_t k_alignment{64};

class CpuStream final : public Stream {
 public:
  bool immediate() const override { return true; }
  void enqueue(std::function<void()> work) override { work(); }
  Event record() override { return {}; }
  void wait(const Event&) override {}  // every event of this device is reached once it exists
  void discard(void*, std::size_t) override {}
};

}  // namespace

Buffer CpuDevice::allocate(std::size_t bytes) {
  auto* data = static_cast<std::byte*>(::operator new(aligned(bytes), k_alignment));
  return {data, bytes, [](std::byte* owned) { ::operator delete(owned, k_alignment); }};
}

std::unique_ptr<Stream> CpuDevice::make_stream(std::string_view) {
  return std::make_unique<CpuStream>();
}

}  // namespace dynpipe::device
