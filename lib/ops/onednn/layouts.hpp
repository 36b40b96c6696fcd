#pragma once

#include <cstdint>
#include <dnnl.hpp>

#include "ops/ops.hpp"

namespace dynpipe::ops::onednn {

/// How our tensors lie in memory, in the library's words. Layout::blocked is nChw8c or nChw16c,
/// which ever the library itself takes for convolutions on this machine.
class Layouts {
 public:
  explicit Layouts(const dnnl::engine& cpu);

  /// Channels of a block: 8 or 16, or 0 where the library prefers another order than blocks.
  std::int64_t block() const { return block_; }

  dnnl::memory::desc images(const Tensor& x) const;  ///< [N,C,H,W] in its layout
  /// Any order that the library likes best.
  dnnl::memory::desc any(const Tensor& x) const;
  /// Channels innermost.
  dnnl::memory::desc channels_last(const Tensor& x) const;
  dnnl::memory::desc weights(const Tensor& w) const;  ///< [O,C,KH,KW] in its layout
  dnnl::memory::desc vector(std::int64_t size) const;

 private:
  std::int64_t block_;
};

}  // namespace dynpipe::ops::onednn
