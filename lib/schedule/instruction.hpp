#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dynpipe::schedule {

enum class Op : std::uint8_t {
  receive,       ///< post the receive of a microbatch's activation or gradient from `peer`
  send,          ///< post the send of what the last forward or backward of it made, to `peer`
  forward,       ///< needs the microbatch's activation (first stage: its images)
  forward_lean,  ///< the same, keeping nothing but its input: `recompute` comes before its backward
  recompute,     ///< a lean forward again, now keeping what the backward needs
  backward,      ///< needs the microbatch's gradient (last stage: its loss)
  backward_input,   ///< the part of `backward` that the stage before waits for; the other is due
  backward_weight,  ///< the rest of it
  reduce_start,     ///< the group's gradients on this replica are complete: start their sum, never
                    ///< block
  update_wait,      ///< until the sum is there
  update,           ///< make version g + 1 from version g
};

enum class Payload : std::uint8_t { activation, gradient };

/// One step of a rank. `index` is the microbatch k = g M + j of messages, forwards and backwards,
/// and the update group g of the others.
struct Instruction {
  Op op;
  Payload payload = Payload::activation;  ///< of receive and send
  int peer = -1;                          ///< of receive and send: the other rank
  std::int64_t index = 0;

  friend bool operator==(const Instruction&, const Instruction&) = default;
};

/// What one rank does from one drain to the next, in order.
using Stream = std::vector<Instruction>;

/// Whether it makes the activation that the next stage waits for.
constexpr bool makes_activation(Op op) {
  return op == Op::forward || op == Op::forward_lean;
}
/// Whether it makes the gradient of the microbatch's input.
constexpr bool makes_input_gradient(Op op) {
  return op == Op::backward || op == Op::backward_input;
}
/// Whether it is the last that the microbatch's gradients of weights wait for.
constexpr bool completes_backward(Op op) {
  return op == Op::backward || op == Op::backward_weight;
}

std::string_view name_of(Op op);
std::string_view name_of(Payload payload);
/// "receive activation 17 from rank 2"
std::string to_string(const Instruction& instruction);

}  // namespace dynpipe::schedule
