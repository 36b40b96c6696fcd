#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/estimate.hpp"
#include "planner/simulator.hpp"

namespace dynpipe::planner {

/// A plan of which one run takes more instructions is not simulated.
constexpr std::int64_t k_most_steps = 1'000'000;

/// What a plan comes to on the simulated clock.
struct Judgement {
  double period_s = 0;  ///< of an update, once the pipeline is full
  double delay = 0;     ///< tau'
  double objective = 0;
  /// By rank, shares of the time.
  struct Times {
    double busy = 0, wait_activation = 0, wait_gradient = 0, wait_reduction = 0;
  };
  std::vector<Times> ranks;
};

/// Runs plans in the simulator, on a cluster that nothing disturbs and without jitter, long enough
/// to find the period of their updates; counts the instructions that it took.
class Judge {
 public:
  Judge(const model::Profile& profile, const Cluster& cluster, std::int64_t batch, double kappa);

  Judgement operator()(const plan::Plan& plan);
  /// Instructions that judging takes, and messages of sums over replicas, about.
  static std::int64_t steps_of(const plan::Plan& plan);
  std::int64_t steps() const { return steps_; }

 private:
  const model::Profile& profile_;
  Cluster cluster_;
  std::int64_t batch_;
  double kappa_;
  std::int64_t steps_ = 0;
};

/// tau' of a plan, weights of stages by the profile's parameter bytes.
double delay_of(const plan::Plan& plan, const model::Profile& profile);

}  // namespace dynpipe::planner
