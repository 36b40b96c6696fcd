#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "interference/stage_features.hpp"
#include "model/model.hpp"

namespace dynpipe::app {

/// A stage that can be run, and whose layers are of one mix with those of its model.
struct StageDescription {
  std::string name;  ///< "conv[0-3] x4": layers, samples of a microbatch
  std::string mix;   ///< its model's name
  interference::LayerWork work;
  double parameter_bytes = 0, activation_bytes = 0;  ///< see interference::StageFeatures
};

/// Seconds of a microbatch, forward and backward, by what the layers are bound by.
struct BoundSeconds {
  double arithmetic = 0, weights = 0, activations = 0;

  double total() const { return arithmetic + weights + activations; }
};

/// Chains of layers that train by themselves, one stage after another, on the calling thread.
class ForestStages {
 public:
  /// Each model cut into `cuts` stages of about equal FLOPs (fewer where it has too few layers),
  /// once for each microbatch size.
  ForestStages(std::vector<model::Model> models, const std::vector<std::int64_t>& samples, int cuts,
               const base::Clock& clock);
  ~ForestStages();

  const std::vector<StageDescription>& stages() const { return stages_; }

  /// What some groups took.
  struct Slice {
    BoundSeconds seconds;  ///< sums over groups of a microbatch's
    double squares = 0;    ///< of a microbatch's seconds, summed over groups
    int groups = 0;

    Slice& operator+=(const Slice& other);
    BoundSeconds mean() const;  ///< of a microbatch
    double error() const;       ///< standard error of the mean over groups, relative to it
  };
  /// Runs a group that does not count, calls `warm`, and runs the stage for so long, at least one
  /// group.
  template <typename Warm>
  Slice run(std::size_t stage, double seconds, const Warm& warm) {
    warm_up(stage);
    warm();
    return run_warm(stage, seconds);
  }

 private:
  struct Chain;
  void add(const std::shared_ptr<const model::Model>& model, std::int64_t samples, int cuts);
  void warm_up(std::size_t stage);
  Slice run_warm(std::size_t stage, double seconds);

  const base::Clock& clock_;
  struct Machine;
  std::unique_ptr<Machine> machine_;
  std::vector<std::unique_ptr<Chain>> chains_;
  std::vector<StageDescription> stages_;
};

/// Models of several mixes of layers, small enough to be run often: convolutions, pointwise ones,
/// two kinds of residual blocks, linear layers of three widths, norms and poolings on small and
/// large images.
std::vector<model::Model> mixed_models();

}  // namespace dynpipe::app
