#include "interference/stage_scores.hpp"

namespace dynpipe::interference {

StageScores::StageScores(const Forest& forest, const model::Model& model,
                         const model::Profile& profile, std::int64_t samples,
                         std::span<const Environment> environments)
    : forest_(forest),
      model_(model),
      profile_(profile),
      samples_(samples),
      environments_(environments),
      places_(environments.size() * model.layers.size() * model.layers.size(), -1) {}

std::size_t StageScores::index(const RankStage& stage) const {
  const std::size_t layers = model_.layers.size();
  return (static_cast<std::size_t>(stage.rank) * layers + static_cast<std::size_t>(stage.first)) *
             layers +
         static_cast<std::size_t>(stage.last);
}

void StageScores::score(std::span<const RankStage> wanted) {
  std::vector<FeatureRow> rows;
  for (const RankStage& stage : wanted) {
    std::int32_t& place = places_[index(stage)];
    if (place >= 0) continue;
    place = static_cast<std::int32_t>(seconds_.size());
    const StageFeatures candidate =
        stage_features(model_, profile_, stage.first, stage.last, samples_);
    rows.push_back(features(environments_[static_cast<std::size_t>(stage.rank)], candidate));
    seconds_.push_back(candidate.seconds);
  }
  for (const Prediction& prediction : forest_.predict(rows)) {
    seconds_[predictions_.size()] *= prediction.slowdown;
    predictions_.push_back(prediction);
  }
}

}  // namespace dynpipe::interference
