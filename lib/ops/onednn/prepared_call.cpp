#include "ops/onednn/prepared_call.hpp"

#include <new>

#include "ops/onednn/descriptors.hpp"

namespace dynpipe::ops::onednn {

std::byte* Scratch::reserve(std::size_t bytes) {
  constexpr std::align_val_t alignment{64};
  if (buffer_.bytes() < bytes) {
    buffer_ = {};  // first, so that the old and the new never exist together
    buffer_ = {static_cast<std::byte*>(::operator new(bytes, alignment)), bytes,
               [](std::byte* data) { ::operator delete(data, alignment); }};
  }
  return buffer_.data();
}

void PreparedCall::Step::add(int argument, const dnnl::memory& memory) {
  arguments.push_back({argument, memory.get()});
  memories.push_back(memory);
}

void PreparedCall::Step::execute(const dnnl::stream& stream) const {
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(arguments.size()),
                             arguments.data()),
      "could not execute a primitive");
}

PreparedCall::PreparedCall(const dnnl::engine& cpu, const dnnl::primitive& primitive,
                           const dnnl::memory::desc& scratchpad)
    : cpu_(cpu), primitive_{primitive, {}, {}} {
  if (scratchpad.get_size() > 0) primitive_.add(DNNL_ARG_SCRATCHPAD, in_scratch(scratchpad));
}

void PreparedCall::input(int argument, const dnnl::memory::desc& ours,
                         const dnnl::memory::desc& chosen) {
  const dnnl::memory memory(ours, cpu_, DNNL_MEMORY_NONE);
  operands_.push_back({argument, memory});
  if (ours == chosen) {
    primitive_.add(argument, memory);
  } else {
    const dnnl::memory converted = in_scratch(chosen);
    before_.push_back(conversion(memory, converted, false));
    primitive_.add(argument, converted);
  }
}

void PreparedCall::output(int argument, const dnnl::memory::desc& ours,
                          const dnnl::memory::desc& chosen, bool add) {
  const dnnl::memory memory(ours, cpu_, DNNL_MEMORY_NONE);
  operands_.push_back({argument, memory});
  if (ours == chosen && !add) {
    primitive_.add(argument, memory);
  } else {
    const dnnl::memory result = in_scratch(chosen);
    after_.push_back(conversion(result, memory, add));
    primitive_.add(argument, result);
  }
}

void PreparedCall::run(dnnl::stream& stream, Scratch& scratch,
                       std::initializer_list<Binding> bindings) {
  std::byte* base = scratch.reserve(scratch_bytes_);
  if (base != scratch_base_) {
    for (auto& operand : scratch_operands_) operand.memory.set_data_handle(base + operand.offset);
    scratch_base_ = base;
  }
  for (auto& operand : operands_) {
    for (const Binding& binding : bindings) {
      if (binding.argument == operand.argument) operand.memory.set_data_handle(binding.data);
    }
  }
  for (const Step& step : before_) step.execute(stream);
  primitive_.execute(stream);
  for (const Step& step : after_) step.execute(stream);
}

dnnl::memory PreparedCall::in_scratch(const dnnl::memory::desc& desc) {
  dnnl::memory memory(desc, cpu_, DNNL_MEMORY_NONE);
  scratch_operands_.push_back({scratch_bytes_, memory});
  scratch_bytes_ += device::aligned(desc.get_size());
  return memory;
}

PreparedCall::Step PreparedCall::conversion(const dnnl::memory& from, const dnnl::memory& to,
                                            bool add) {
  const auto description = describe_reorder(cpu_, from.get_desc(), to.get_desc(), add);
  Step step{dnnl::reorder(description), {}, {}};
  step.add(DNNL_ARG_FROM, from);
  step.add(DNNL_ARG_TO, to);
  const dnnl::memory::desc scratchpad = description.scratchpad_desc();
  if (scratchpad.get_size() > 0) step.add(DNNL_ARG_SCRATCHPAD, in_scratch(scratchpad));
  return step;
}

}  // namespace dynpipe::ops::onednn
