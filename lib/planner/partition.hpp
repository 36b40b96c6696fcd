#pragma once

#include <optional>
#include <vector>

#include "planner/estimate.hpp"

namespace dynpipe::planner {

/// What a cut has to keep below the period.
enum class CutRule {
  /// Each stage, and each message there and back: PipeDream's search, A[j][m] = min over k, m' of
  /// max(A[k][m - m'], stage(k + 1..j, m'), transfer_k) (Narayanan et al. 2019).
  bottleneck,
  /// Each two neighbours by themselves: a message of C between stages of T and U is hidden up to
  /// |T - U| / 2, so (T + U) / 2 + C.
  neighbours,
  /// Every chain of the cycle formula, with warm-ups of `gap` times the least.
  cycle,
  /// Each stage alone: messages are hidden.
  stages,
};

struct CutSettings {
  CutRule rule = CutRule::cycle;
  double gap = 1;
  /// By layer: the stage that it has to be in, or -1; empty where all are free.
  std::vector<int> pins;
  int stages = 0;        ///< how many; 0: any number
  bool replicas = true;  ///< stages may have several ranks
  /// By layer: whether a stage may begin with it; empty where all may.
  std::vector<bool> may_begin;
};

/// Cuts a chain of layers into stages for all ranks in their order, by dynamic programming over
/// (layers, ranks): for a period that is given it keeps the least of what a rule carries from stage
/// to stage, and goes only where the rest can still be done in time; the least period is bisected.
class Cutter {
 public:
  Cutter(const Estimator& estimator, CutSettings settings);

  /// Stages that keep the rule within this time a microbatch, if there are any.
  std::optional<Parts> within(double period_s);
  /// The least such time, within a part of it.
  struct Best {
    Parts parts;
    double period_s;
  };
  std::optional<Best> best(double tolerance);

  /// Whether a stage number may be these layers (pins and `may_begin`).
  bool allowed(int stage, int first, int last) const;
  bool allowed(const Parts& parts) const;
  /// Whether memory keeps some cuts out.
  bool limited() const { return limited_; }

 private:
  struct State {
    float carry = k_none;
    int first = -1;  ///< of the stage that ends here
    int replicas = 0;
    int before = 0;  ///< replicas of the stage before it
  };
  struct Run;  ///< what stays the same while a stage grows

  static constexpr float k_none = 3e38F;

  State& state(int stages, int layers, int ranks);
  void extend(int stages, int first, int ranks);
  void grow(const Run& run, const State& from);
  /// The first layer that a stage from `first` on may end with, if the ranks left are to do the
  /// rest in time.
  int first_last(int first, int ranks_used) const;
  /// Fills `needed_`; false where some layer cannot be done in time. For equal ranks.
  bool count_needed();
  bool fits(int first, int last, int begin, int replicas, bool recompute) const;
  Parts trace(int stages) const;

  const Estimator& estimator_;
  const CostModel& costs_;
  CutSettings settings_;
  int layers_, ranks_;
  int depth_;  ///< stages that states tell apart; 1: none
  double period_ = 0;
  bool limited_ = false;
  /// Ranks that layers from here on need at least; empty for unequal ranks.
  std::vector<int> needed_;
  std::vector<State> states_;
};

}  // namespace dynpipe::planner
