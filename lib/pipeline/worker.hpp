#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "comm/channel.hpp"
#include "comm/ordered_sum.hpp"
#include "nn/chain.hpp"
#include "nn/learning_rate.hpp"
#include "pipeline/buffer_pool.hpp"
#include "pipeline/control_link.hpp"
#include "pipeline/feed.hpp"
#include "pipeline/gradient_lag.hpp"
#include "pipeline/metrics_link.hpp"
#include "pipeline/slots.hpp"
#include "pipeline/stage_times.hpp"
#include "pipeline/step_observer.hpp"
#include "pipeline/step_recorder.hpp"
#include "pipeline/times_link.hpp"
#include "pipeline/weight_store.hpp"
#include "plan/plan.hpp"
#include "schedule/schedule.hpp"

namespace dynpipe::pipeline {

/// Everything a rank needs to play its part in a plan. What is referred to outlives the worker.
struct WorkerSetup {
  const model::Model& model;
  const plan::Plan& plan;
  device::Device& device;
  comm::Channel& channel;
  ops::Ops& ops;  ///< this worker's alone
  const base::Clock& clock;
  nn::OptimizerSettings optimizer;
  nn::LearningRate learning_rate;
  std::int64_t max_samples = 1;  ///< of a microbatch
  std::uint64_t seed = 1;
  /// Told of every group on rank 0, in order; may be empty.
  MetricsLink::Sink on_group;
  /// Groups from one report of where a rank's time went to the next, the same on all ranks; 0:
  /// none.
  std::int64_t times_every = 0;
  /// Told of these reports on rank 0; may be empty.
  TimesLink::Sink on_times = {};
  double label_smoothing = 0;  ///< of the training loss; evaluation knows none
  /// Groups from one comparison of gradients to the next, see GradientLag; 0: none.
  std::int64_t compare_gradients_every = 0;
  StepObserver* observer = nullptr;  ///< of this worker's instructions; may be null
  /// Told by the worker's own thread when its update of a group has been launched; may be empty.
  std::function<void(std::int64_t group)> on_update = {};
  ControlLink* control = nullptr;  ///< that may end a segment early; may be null
  /// Whether reports tell of single steps too; the same on all ranks.
  bool record_steps = false;
};

/// Sums over the microbatches that a last-stage rank evaluated; zero elsewhere.
struct EvaluationTotals {
  double loss_sum = 0, correct = 0, samples = 0;
};

/// One rank of the pipeline: executes instruction streams, and knows nothing of schedules.
///
/// A microbatch's way through a rank: its activation arrives in an input buffer, the chain leaves
/// every layer's output in an arena, the last output leaves from there; its gradient arrives in a
/// buffer of its own, the chain turns it into the gradient of the input, which leaves from an
/// outgoing buffer.
class Worker {
 public:
  explicit Worker(const WorkerSetup& setup);
  ~Worker();

  /// Start from these weights as version `version`.
  void load(const tensor::StateDict& state, std::int64_t version, const std::string& source);
  /// Train the groups of a segment and drain. `feed` numbers microbatches through the run. Returns
  /// the group before which it ended: `control` may have made it shorter.
  std::int64_t train(schedule::Segment segment, std::int64_t epoch, const Feed& feed);
  /// What the last stage makes of a microbatch, [N, classes], at the moment it is there.
  using LogitsSink = std::function<void(std::int64_t microbatch, const tensor::Tensor& logits)>;
  /// Evaluate microbatches [0, count) of `feed` on the newest version; `count` as in
  /// evaluation_stream. The last stage's ranks tell `sink`, which may be empty, of each of theirs,
  /// in order and on the stream's own thread.
  EvaluationTotals evaluate(std::int64_t count, const Feed& feed, LogitsSink sink = {});
  /// The newest version of this stage's weights, and its running statistics.
  tensor::StateDict state();
  /// This stage's weights, by name.
  const WeightStore& weights() const { return weights_; }
  /// Copies all that training goes on from, in an order with the updates: to be called between
  /// segments or by `on_update`. Returns when the copies are made.
  void take_snapshot(WeightSnapshot& into);
  /// Go on from there, see WeightStore::restore; between segments.
  void restore(const WeightSnapshot& from);
  const StageTimes& times() const { return times_; }
  /// Comparisons of gradients so far: on one rank of each stage, and none without
  /// `compare_gradients_every`.
  std::vector<LagSample> gradient_comparisons() const;

 private:
  /// A microbatch between its first and its last instruction here.
  struct Flight {
    BufferPool::Lease input, arena, gradient, outgoing, deferred;
    BufferPool::Lease output;  ///< of a lean forward: what leaves, the arena being gone
    std::optional<comm::Ticket> activation_arrival, gradient_arrival, departure;
    bool gradient_sent = false, backward_done = false;
  };
  /// What lies in a buffer of a group's gradients.
  struct SumViews {
    std::vector<tensor::Tensor> parameters;
    std::vector<std::vector<tensor::Tensor>> statistics;  ///< [microbatch of the group]
  };
  /// A group between its first backward and its update.
  struct GroupSum {
    BufferPool::Lease lease;
    /// What some microbatch has left: by the input part of its backward, by the weight part.
    bool input_parts = false, weight_parts = false;
  };
  struct Pools;

  void execute(const schedule::Stream& stream);
  /// Whether a group's instructions belong to the segment under way.
  bool admits(std::int64_t group);
  void execute(const schedule::Instruction& instruction);
  /// What the instruction under way waits for is there.
  void note_started();
  /// It computes from now on. Returns the time.
  double note_begun();
  /// It has computed what it had to.
  void note_done();
  void receive(const schedule::Instruction& instruction);
  void send(const schedule::Instruction& instruction);
  void forward(std::int64_t microbatch, bool lean);
  void recompute(std::int64_t microbatch);
  void backward(std::int64_t microbatch);
  void backward_input(std::int64_t microbatch);
  void backward_weight(std::int64_t microbatch);
  void reduce_start(std::int64_t group);
  void update_wait(std::int64_t group);
  void update(std::int64_t group);

  void drain();
  GroupSum& open_sum(std::int64_t group);
  SumViews views_of_sum(std::byte* data) const;
  /// Waits for what a backward needs.
  Flight& begin_backward(std::int64_t microbatch);
  /// Gives back what it used.
  void end_backward(std::int64_t microbatch, Flight& flight);
  void forget_if_done(std::int64_t microbatch, const Flight& flight);
  static tensor::Tensor totals_in(std::byte* data);
  tensor::Tensor input_of(const Flight& flight, std::int64_t n) const;
  /// Of a lean forward.
  tensor::Tensor output_of(const Flight& flight, std::int64_t n) const;
  tensor::Tensor output_gradient_of(const Flight& flight, std::int64_t n) const;
  /// Empty on the first stage.
  tensor::Tensor input_gradient_of(const Flight& flight, std::int64_t n) const;
  nn::Gradients gradients_in(const GroupSum& sum, std::int64_t microbatch, bool begun) const;
  /// Runs the chain into an arena of the microbatch, on the weights of its group.
  void run_chain(std::int64_t microbatch, Flight& flight);
  /// The loss of a microbatch, and, where it is `wanted`, its gradient in the arena.
  enum class LossGradient : bool { unwanted, wanted };
  void find_loss(std::int64_t microbatch, const Flight& flight, const tensor::Tensor& totals,
                 ops::Accumulate accumulate, LossGradient gradient);
  void add_loss(std::int64_t microbatch, const Flight& flight, LossGradient gradient);
  /// A buffer from which messages leave, once the last one has.
  BufferPool::Lease acquire_after_send(BufferPool& pool);
  /// Length of a group's gradient buffer: parameters, then each microbatch's statistics.
  std::int64_t sum_elements() const;
  void await(std::optional<comm::Ticket>& arrival, double& waited_s);
  /// The weights that a group's backward passes read.
  nn::Weights backward_weights(std::int64_t group);
  nn::Pass pass_over(std::int64_t microbatch) const;
  tensor::Tensor image(std::byte* data, const base::Shape& sample, tensor::Layout layout,
                       std::int64_t n) const;
  bool first_stage() const { return stage_ == 0; }
  bool last_stage() const { return stage_ + 1 == plan_.size(); }
  /// Adds the time since `since_s` to `total_s`.
  void charge(double& total_s, double since_s) const;
  /// `times_`, with the segment under way.
  StageTimes times_so_far() const;

  const WorkerSetup setup_;
  const plan::Plan& plan_;
  int rank_, stage_;
  const plan::Stage& own_;
  ops::Ops& ops_;
  comm::Channel& channel_;
  std::unique_ptr<device::Stream> stream_;
  nn::Chain chain_;
  WeightStore weights_;
  device::Buffer scratch_;
  std::function<void()> poll_;
  std::unique_ptr<Pools> pools_;
  std::unique_ptr<comm::OrderedSum> reduction_;
  std::unique_ptr<MetricsLink> metrics_;
  std::unique_ptr<TimesLink> times_link_;
  std::unique_ptr<StepRecorder> recorder_;
  StepObservers observers_;
  std::unique_ptr<GradientLag> gradient_lag_;

  LogitsSink logits_sink_;  ///< of the evaluation under way; may be empty
  const schedule::Instruction* instruction_ = nullptr;  ///< under way
  const Feed* feed_ = nullptr;                          ///< of the segment under way
  bool training_ = false;
  std::int64_t epoch_ = 0;
  std::int64_t segment_end_ = 0, admitted_ = 0;  ///< groups of the segment under way
  Slots<Flight> flights_;                        ///< by microbatch
  Slots<GroupSum> sums_;                         ///< by group
  Slots<BufferPool::Lease> totals_;
  std::vector<SumViews> sum_views_;  ///< of each buffer of sums
  StageTimes times_;
  double segment_began_s_ = 0;
};

}  // namespace dynpipe::pipeline
