#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/channel.hpp"
#include "comm/loopback/loopback_channel.hpp"
#include "device/device.hpp"
#include "model/model.hpp"
#include "nn/learning_rate.hpp"
#include "nn/optimizer.hpp"
#include "pipeline/feed.hpp"
#include "pipeline/worker.hpp"
#include "plan/plan.hpp"
#include "planner/cluster.hpp"
#include "planner/simulator.hpp"
#include "tensor/state_dict.hpp"

namespace dynpipe::testing {

/// Labelled images in memory, visited round and round: group g of n samples holds those numbered
/// from where group g - 1 ended.
struct Samples {
  base::Shape image;
  std::vector<double> pixels;        ///< [N,C,H,W]
  std::vector<std::int32_t> labels;  ///< [N]

  std::int64_t size() const { return static_cast<std::int64_t>(labels.size()); }
};
Samples random_samples(const base::Shape& image, std::int64_t classes, std::int64_t count,
                       std::uint64_t seed);

/// A described machine, on which a run's clocks are virtual.
struct DescribedMachine {
  planner::Workload work;
  planner::Cluster cluster;
};

/// A short training run, complete: what a plan is checked with.
struct Scenario {
  model::Model model;
  plan::Plan plan;
  Samples samples;
  std::vector<std::int64_t> group_sizes;  ///< of group g: entry g modulo its length
  std::int64_t updates = 20;
  nn::OptimizerSettings optimizer;
  double label_smoothing = 0;
  nn::LearningRate learning_rate;
  tensor::StateDict initial;
  std::uint64_t seed = 1;
  tensor::DType dtype = tensor::DType::float64;
  bool onednn = false;                       ///< float32 by the fast backend
  std::int64_t compare_gradients_every = 0;  ///< see pipeline::GradientLag
  /// Drain and evaluate after these groups (ascending), and at the end: must change nothing.
  std::vector<std::int64_t> drains;
  std::optional<DescribedMachine> machine;  ///< empty: this one

  /// Take a snapshot when so many updates are made, training on; -1: none.
  std::int64_t snapshot_at = -1;
  /// Begin from these snapshots, one a rank, instead of `initial`.
  std::shared_ptr<const std::vector<pipeline::WeightSnapshot>> resume_from;
  /// Rank 0 asks to stop when it has made so many updates; -1: it does not.
  std::int64_t stop_asked_at = -1;

  std::int64_t group_size(std::int64_t group) const;
  /// Groups from one report of a rank's times to the next: another number for other seeds.
  std::int64_t times_every() const { return 1 + static_cast<std::int64_t>(seed % 3); }
  std::int64_t largest_microbatch() const;
};

/// The scenario's microbatches as a pipeline asks for them.
class ScenarioFeed final : public pipeline::Feed {
 public:
  explicit ScenarioFeed(const Scenario& scenario);
  std::int64_t size(std::int64_t microbatch) const override;
  std::int64_t group_size(std::int64_t group) const override;
  std::span<const std::uint64_t> samples(std::int64_t microbatch) const override;
  void write_input(std::int64_t microbatch, const tensor::Tensor& x) const override;
  void write_labels(std::int64_t microbatch, const tensor::Tensor& labels) const override;

 private:
  const Scenario& scenario_;
  std::vector<std::vector<std::uint64_t>> microbatches_;
};

/// All the scenario's samples, evaluated in microbatches of the training size; those that fill up
/// the last group are empty.
class EvaluationFeed final : public pipeline::Feed {
 public:
  explicit EvaluationFeed(const Scenario& scenario);
  std::int64_t microbatches() const;  ///< whole groups of them
  std::int64_t size(std::int64_t microbatch) const override;
  std::int64_t group_size(std::int64_t) const override { return 1; }
  std::span<const std::uint64_t> samples(std::int64_t microbatch) const override;
  void write_input(std::int64_t microbatch, const tensor::Tensor& x) const override;
  void write_labels(std::int64_t microbatch, const tensor::Tensor& labels) const override;

 private:
  const Scenario& scenario_;
  std::vector<std::uint64_t> ids_;
};

/// What a rank has at the end of a scenario.
struct RankOutcome {
  std::vector<double> losses;       ///< mean of each update group; on rank 0
  std::vector<double> correct;      ///< samples of each group whose label was found; on rank 0
  std::vector<double> evaluations;  ///< of each drain: loss sum, correct, samples; this rank's part
  std::vector<pipeline::TimesReport> reports;  ///< of all ranks; on rank 0
  tensor::StateDict state;                     ///< of this rank's stage
  pipeline::StageTimes times;
  double end_s = 0;  ///< on the worker's clock, since it began
  std::vector<pipeline::LagSample> comparisons = {};
  std::shared_ptr<pipeline::WeightSnapshot> snapshot = {};
  std::int64_t updates = 0;  ///< made when the run ended
};

/// One rank's part, over any channel and device. `on_failure` is called, before its memory is
/// freed, where it throws.
RankOutcome run_rank(
    const Scenario& scenario, comm::Channel& channel, device::Device& device,
    const std::function<void()>& on_failure = [] {});

/// All ranks as threads over a loopback hub. The state of a stage is its first replica's;
/// `replicas_agree` tells whether all had the same bits.
struct Outcome {
  std::vector<double> losses;
  std::vector<double> correct;
  std::vector<double> evaluations;  ///< over all ranks
  tensor::StateDict state;
  bool replicas_agree = true;
  std::vector<pipeline::TimesReport> reports;  ///< of all ranks, as rank 0 was told
  /// Of the recursion: samples of each group whose two largest logits are equal but for rounding,
  /// so that the order of a sum decides whether their label was found.
  std::vector<double> undecided = {};
  std::vector<pipeline::StageTimes> times = {};  ///< by rank
  std::vector<double> ends_s = {};               ///< by rank, since it began
  /// Of the ranks that have some.
  std::vector<std::vector<pipeline::LagSample>> comparisons = {};
  std::shared_ptr<const std::vector<pipeline::WeightSnapshot>> snapshots = {};  ///< by rank
  std::vector<std::int64_t> updates = {};  ///< by rank: made when the run ended
};
Outcome run_on_threads(const Scenario& scenario, comm::LoopbackOptions loopback,
                       bool fake_device = true);

/// Whether the counts of samples whose label was found are the recursion's, but for those that
/// rounding decides.
bool same_correct(const std::vector<double>& actual, const Outcome& recursion);

/// The largest |a - b| / max(1, |b|) over all values of two lists or states; infinite where one has
/// what the other has not, or a NaN.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);
double largest_difference(const tensor::StateDict& a, const tensor::StateDict& b);
/// The part of `all` whose names are in `part`.
tensor::StateDict same_names(const tensor::StateDict& all, const tensor::StateDict& part);

}  // namespace dynpipe::testing
