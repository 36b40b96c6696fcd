#include "planner/step_costs.hpp"

#include <cmath>

namespace dynpipe::planner {

using schedule::Op;

StepCosts::StepCosts(const RankWork& work, int larger, int microbatches, double slowdown)
    : update_s_(work.update_s * slowdown), microbatches_(microbatches), larger_(larger) {
  for (const bool large : {false, true}) {
    const MicrobatchWork& of = large ? work.large : work.small;
    double* const cost = by_op_s_[large ? 1 : 0];
    const auto set = [&](Op op, double seconds) {
      cost[static_cast<std::size_t>(op)] = seconds * slowdown;
    };
    set(Op::forward, of.forward_s);
    set(Op::forward_lean, of.forward_s);
    set(Op::recompute, of.forward_s);
    set(Op::backward, of.backward_input_s + of.backward_weight_s);
    set(Op::backward_input, of.backward_input_s);
    set(Op::backward_weight, of.backward_weight_s);
  }
}

void StepCosts::add_jitter(double deviation, std::uint64_t seed, int rank) {
  sigma_ = std::sqrt(std::log1p(deviation * deviation));
  random_ = base::Philox(seed, "jitter", static_cast<std::uint64_t>(rank));
}

double StepCosts::factor(const schedule::Instruction& step) const {
  const std::uint64_t draw =
      static_cast<std::uint64_t>(step.index) * k_ops + static_cast<std::uint64_t>(step.op);
  return std::exp(sigma_ * random_.normal(draw) - sigma_ * sigma_ / 2);
}

}  // namespace dynpipe::planner
