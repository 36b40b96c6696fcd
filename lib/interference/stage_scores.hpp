#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "interference/forest.hpp"
#include "model/model.hpp"
#include "model/profile.hpp"

namespace dynpipe::interference {

/// Layers [first, last] on a rank.
struct RankStage {
  int rank = 0, first = 0, last = 0;
};

/// What the ranks would take for stages that candidate plans give them, each scored once however
/// many plans have it. What is referred to outlives the scores.
class StageScores {
 public:
  /// `environments`: by rank; microbatches have `samples`.
  StageScores(const Forest& forest, const model::Model& model, const model::Profile& profile,
              std::int64_t samples, std::span<const Environment> environments);

  /// Has the forest score those that are not scored yet, all at once.
  void score(std::span<const RankStage> wanted);
  /// Of a stage that was scored.
  const Prediction& at(const RankStage& stage) const { return predictions_[place(stage)]; }
  /// Seconds of a microbatch on that rank: undisturbed, times the predicted slowdown.
  double seconds(const RankStage& stage) const { return seconds_[place(stage)]; }
  /// Stages that were scored.
  std::size_t scored() const { return predictions_.size(); }

 private:
  std::size_t index(const RankStage& stage) const;
  std::size_t place(const RankStage& stage) const {
    return static_cast<std::size_t>(places_[index(stage)]);
  }

  const Forest& forest_;
  const model::Model& model_;
  const model::Profile& profile_;
  std::int64_t samples_;
  std::span<const Environment> environments_;
  std::vector<std::int32_t> places_;  ///< by rank, first and last layer; -1: not scored
  std::vector<Prediction> predictions_;
  std::vector<double> seconds_;
};

}  // namespace dynpipe::interference
