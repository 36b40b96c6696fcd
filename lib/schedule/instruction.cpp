#include "schedule/instruction.hpp"

#include <fmt/format.h>

namespace dynpipe::schedule {

std::string_view name_of(Op op) {
  switch (op) {
    case Op::receive:
      return "receive";
    case Op::send:
      return "send";
    case Op::forward:
      return "forward";
    case Op::forward_lean:
      return "forward_lean";
    case Op::recompute:
      return "recompute";
    case Op::backward:
      return "backward";
    case Op::backward_input:
      return "backward_input";
    case Op::backward_weight:
      return "backward_weight";
    case Op::reduce_start:
      return "reduce_start";
    case Op::update_wait:
      return "update_wait";
    case Op::update:
      return "update";
  }
  return "?";
}

std::string_view name_of(Payload payload) {
  return payload == Payload::activation ? "activation" : "gradient";
}

std::string to_string(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::receive:
      return fmt::format("receive {} {} from rank {}", name_of(instruction.payload),
                         instruction.index, instruction.peer);
    case Op::send:
      return fmt::format("send {} {} to rank {}", name_of(instruction.payload), instruction.index,
                         instruction.peer);
    default:
      return fmt::format("{} {}", name_of(instruction.op), instruction.index);
  }
}

}  // namespace dynpipe::schedule
