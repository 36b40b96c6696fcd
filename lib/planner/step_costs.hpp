#pragma once

#include <cstdint>
#include <vector>

#include "base/random.hpp"
#include "planner/simulator.hpp"

namespace dynpipe::planner {

/// How long one rank's steps take on its device, undisturbed but for jitter.
class StepCosts {
 public:
  StepCosts(const RankWork& work, int larger, int microbatches, double slowdown);

  /// From now on steps take this times a log-normal factor of mean 1 and this deviation.
  void add_jitter(double deviation, std::uint64_t seed, int rank);

  /// Of a forward, backward, part of one, or update; 0 of others.
  double seconds(const schedule::Instruction& step) const {
    const double undisturbed_s = mean_s(step);
    return sigma_ == 0 ? undisturbed_s : undisturbed_s * factor(step);
  }

 private:
  double mean_s(const schedule::Instruction& step) const {
    if (step.op == schedule::Op::update) return update_s_;
    const bool large = step.index % microbatches_ < larger_;
    return by_op_s_[large ? 1 : 0][static_cast<std::size_t>(step.op)];
  }
  double factor(const schedule::Instruction& step) const;

  static constexpr std::size_t k_ops = static_cast<std::size_t>(schedule::Op::update) + 1;
  double by_op_s_[2][k_ops] = {};  ///< of small and large microbatches
  double update_s_ = 0;
  std::int64_t microbatches_, larger_;
  double sigma_ = 0;  ///< of the factor's logarithm
  base::Philox random_{0};
};

}  // namespace dynpipe::planner
