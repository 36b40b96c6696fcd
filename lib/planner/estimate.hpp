#pragma once

#include <limits>
#include <vector>

#include "planner/cost_model.hpp"
#include "schedule/schedule.hpp"

namespace dynpipe::planner {

/// What is minimised, and within what.
struct Objective {
  plan::Schedule schedule = plan::Schedule::asynchronous;
  plan::WeightPolicy policy = plan::WeightPolicy::double_buffer;
  /// Of period (1 + kappa tau'), tau' the delay of a plan in updates (`mean_delay`).
  double kappa = 0;
  double memory_bytes = std::numeric_limits<double>::infinity();  ///< limit of every rank
  bool recompute = true;  ///< where a stage does not fit otherwise
  // What a search without it would do worse.
  bool communication = true;  ///< messages take time
  bool spare_warmup = true;   ///< W may be more than the least

  bool synchronous() const { return schedule != plan::Schedule::asynchronous; }
};

/// sqrt(sum C_s^2 tau_s^2 / sum C_s^2): `weights` are C_s, the shares of the stages in what is
/// trained, `delays` tau_s. 0 without weights.
double mean_delay(const std::vector<double>& weights, const std::vector<int>& delays);

/// A plan before it is written out, with what the cycle formula says of it.
struct Sketch {
  Parts parts;
  std::vector<int> warmups;
  double period_s = 0;  ///< of an update
  double delay = 0;     ///< tau'
  double objective = 0;
};

/// Times and memory of plans by formula: the cycle formula (see cycle_formula.hpp), carried over to
/// stages of replicas and to updates.
///
/// A stage of R replicas that take turns runs its forward of microbatch k + R ceil((W + 1) / R)
/// after its backward of k, and its backward of k - R floor(W / R) after its forward of k; so in
/// the denominator of a chain from stage i to j stands R_i ceil((W_i + 1) / R_i) - R_j floor(W_j /
/// R_j), which is W_i - W_j + 1 for single ranks. Exact for those where links are not shared; of
/// replicas in uneven turns, and of sums over them, near it.
class Estimator {
 public:
  Estimator(const CostModel& costs, const Objective& objective)
      : costs_(costs), objective_(objective) {}

  /// Sketches of the given parts worth a closer look, from the least warm-ups on: each next one has
  /// the least that shortens the period. Stages that only fit the memory so recompute. Empty where
  /// nothing fits.
  std::vector<Sketch> options(const Parts& given) const;

  /// Seconds an update with these warm-ups.
  double period_s(const Parts& parts, const std::vector<int>& warmups) const;
  /// A sketch written out.
  plan::Plan plan_of(const Sketch& sketch) const;

  /// By which the links lengthen the period, a microbatch, by stage before them: in the chain of
  /// the cycle formula that takes longest, in proportion to their transfers.
  std::vector<double> exposed_s(const Parts& parts, const std::vector<int>& warmups) const;
  /// No warm-up gives a shorter period of an update: the busiest rank's time.
  double least_period_s(const Parts& parts) const;
  /// What the fullest rank of stage s holds at once, as its streams have it.
  schedule::Footprint footprint(const Parts& parts, const std::vector<int>& warmups, int s) const;
  /// Of the fullest rank of stage s: versions of its weights, sums of their gradients, the
  /// optimizer's state, activations and messages.
  double memory_bytes(const Parts& parts, const std::vector<int>& warmups, int s) const;
  /// That of the fullest rank with the least warm-ups, everything recomputed that may be.
  double least_memory_bytes(Parts parts) const;
  /// tau_s.
  std::vector<int> delays(const std::vector<int>& warmups) const;
  double delay(const Parts& parts, const std::vector<int>& warmups) const;

  /// Beyond this a plan is refused (plan::validate), or holds whole groups for nothing.
  int most_warmup() const;
  const CostModel& costs() const { return costs_; }
  const Objective& objective() const { return objective_; }

  /// One way between stage s and the next, in seconds; 0 where messages take no time.
  double transfer_s(const Part& before, const Part& after) const;
  /// Sum of the gradients of a stage over its replicas: each sends and receives 2 (R - 1) / R of
  /// them.
  double reduction_s(const Part& part) const;

 private:
  /// Stages in time, for a microbatch unless it says otherwise.
  struct Terms {
    std::vector<double> time_s;     ///< T: from the start of its steps to their end, one replica
    std::vector<double> busy_s;     ///< of its busiest rank, updates among it
    std::vector<double> update_s;   ///< of a group
    std::vector<double> link_s;     ///< C, to the next stage
    std::vector<double> exposed_s;  ///< of a group: sums over replicas
    std::vector<int> replicas;      ///< that work
    double busiest_s = 0;
    double least_s = 0;  ///< of the busiest, if all transfers overlap
  };
  Terms terms_of(const Parts& parts) const;
  double period_s(const Terms& terms, const std::vector<int>& warmups) const;
  double group_s(const Parts& parts, const Terms& terms, const std::vector<int>& warmups) const;
  /// The least W with which no chain but a single stage's takes longer than this a microbatch.
  std::vector<int> warmups_within(const Terms& terms, double period_s) const;
  /// Adds sketches; returns the stages that kept it from going on, for want of memory.
  std::vector<int> walk(const Parts& parts, std::vector<Sketch>& found) const;
  int in_flight(const Part& part, int warmup, int first_warmup) const;
  int effective_warmup(int warmup) const;

  const CostModel& costs_;
  Objective objective_;
};

}  // namespace dynpipe::planner
