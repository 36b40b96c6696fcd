#pragma once

#include "device/device.hpp"

namespace dynpipe::device {

/// Host memory, and streams that run work at once, in the calling thread.
class CpuDevice final : public Device {
 public:
  Buffer allocate(std::size_t bytes) override;
  std::unique_ptr<Stream> make_stream(std::string_view name) override;
  std::string description() const override { return "cpu"; }
};

}  // namespace dynpipe::device
