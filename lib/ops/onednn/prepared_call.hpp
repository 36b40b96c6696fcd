#pragma once

#include <cstddef>
#include <dnnl.hpp>
#include <initializer_list>
#include <vector>

#include "device/device.hpp"

namespace dynpipe::ops::onednn {

/// Memory that grows to the largest request and is given to one call after the other.
class Scratch {
 public:
  /// At least `bytes`, aligned to 64; valid until the next call.
  std::byte* reserve(std::size_t bytes);

 private:
  device::Buffer buffer_;
};

/// A primitive made ready once and run many times at different addresses, without heap allocation.
/// Operands of which the primitive wants another layout than ours pass through scratch memory.
class PreparedCall {
 public:
  /// An operand's argument number and its address in this call, in our layout.
  struct Binding {
    int argument;
    std::byte* data;
  };

  PreparedCall(const dnnl::engine& cpu, const dnnl::primitive& primitive,
               const dnnl::memory::desc& scratchpad);

  /// Declare an operand that lies in layout `ours` and that the primitive reads in layout `chosen`.
  void input(int argument, const dnnl::memory::desc& ours, const dnnl::memory::desc& chosen);
  /// The same for a result, which is added to what is there where `add`.
  void output(int argument, const dnnl::memory::desc& ours, const dnnl::memory::desc& chosen,
              bool add = false);

  /// Every declared operand must be bound.
  void run(dnnl::stream& stream, Scratch& scratch, std::initializer_list<Binding> bindings);

 private:
  /// A primitive and its arguments, as the C interface takes them: its C++ counterpart allocates.
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
    std::vector<dnnl::memory> memories;  ///< owners of what `arguments` names

    void add(int argument, const dnnl::memory& memory);
    void execute(const dnnl::stream& stream) const;
  };
  struct Operand {
    int argument;
    dnnl::memory memory;  ///< at the caller's address
  };
  struct ScratchOperand {
    std::size_t offset;
    dnnl::memory memory;
  };

  dnnl::memory in_scratch(const dnnl::memory::desc& desc);
  Step conversion(const dnnl::memory& from, const dnnl::memory& to, bool add);

  dnnl::engine cpu_;
  Step primitive_;
  std::vector<Step> before_, after_;
  std::vector<Operand> operands_;
  std::vector<ScratchOperand> scratch_operands_;
  std::size_t scratch_bytes_ = 0;
  std::byte* scratch_base_ = nullptr;  ///< where scratch_operands_ point now
};

}  // namespace dynpipe::ops::onednn
