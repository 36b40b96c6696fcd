#include "app/train_session.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/backend.hpp"
#include "app/checkpoint_folder.hpp"
#include "app/checkpointing.hpp"
#include "app/dry_run.hpp"
#include "app/emulation.hpp"
#include "app/memory_forecast.hpp"
#include "app/prefetched_feed.hpp"
#include "app/rank_places.hpp"
#include "app/run_outputs.hpp"
#include "app/same_options.hpp"
#include "app/stop_signals.hpp"
#include "app/trace_header.hpp"
#include "app/train_inputs.hpp"
#include "app/train_options.hpp"
#include "app/train_report.hpp"
#include "app/weights_file.hpp"
#include "base/errors.hpp"
#include "base/utc.hpp"
#include "base/version.hpp"
#include "comm/mpi/mpi.hpp"
#include "device/cpu/cpu_device.hpp"
#include "nn/parameters.hpp"
#include "pipeline/worker.hpp"
#include "probe/crowding.hpp"
#include "probe/launcher.hpp"
#include "probe/placement_warnings.hpp"

namespace dynpipe::app {
namespace {

std::int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

/// Groups from one report of a rank's times to the next: rank 0 has eight an update to read at
/// most.
std::int64_t times_every(int ranks) {
  return (ranks + 7) / 8;
}

/// How long the other ranks leave it to rank 0 to end the job when a signal has come: more than
/// launchers give them before they kill (OpenMPI: 1 s), so that one rank says so.
constexpr double k_grace_s = 3;

nn::LearningRate learning_rate(const TrainOptions& o, std::int64_t groups_per_epoch,
                               std::int64_t total_updates) {
  return {o.learning_rate_kind,
          o.learning_rate,
          o.warmup_updates,
          total_updates,
          o.step_epochs * groups_per_epoch,
          o.step_factor};
}

/// Microbatches of images prepared ahead, unless said.
constexpr std::int64_t k_prefetch = 4;

/// One run, from its inputs to its report.
class TrainSession {
 public:
  TrainSession(const TrainOptions& options, comm::World& world)
      : options_(options),
        world_(world),
        program_bytes_(resident_bytes()),
        inputs_(read_train_inputs(options, world)),
        places_(share_places(world, uses_onednn(options) ? options.threads : 1)),
        ops_(make_ops(options, own_place().threads)),
        channel_(comm::make_mpi_channel(
            world, clock_,
            wait_policy(options.deadline_s, probe::has_its_cores(places_, world.rank())))),
        order_(inputs_.extent.train, options.batch, inputs_.plan.microbatches, options.seed,
               inputs_.extent.shuffle),
        test_order_(inputs_.extent.test, largest_microbatch()),
        total_updates_(std::min(options.epochs * order_.groups_per_epoch(),
                                options.max_updates.value_or(INT64_MAX))),
        learning_rate_(learning_rate(options, order_.groups_per_epoch(), total_updates_)) {}

  void run() {
    if (inputs_.cluster) emulation_.emplace(options_, inputs_, clock_, *channel_, world_);
    signals_.emplace(leader() ? 0 : k_grace_s);
    announce();
    if (options_.checkpoints.enabled()) control_.emplace(inputs_.plan, *channel_);
    worker_ = std::make_unique<pipeline::Worker>(pipeline::WorkerSetup{
        inputs_.model, inputs_.plan, device_, *channel_, *ops_,
        emulation_ ? emulation_->worker_clock() : clock_, options_.optimizer, learning_rate_,
        largest_microbatch(), options_.seed,
        [this](const pipeline::GroupMetrics& metrics) { on_group(metrics); },
        times_every(world_.size()),
        [this](const pipeline::TimesReport& report) { monitor().on_times(report); },
        options_.label_smoothing, options_.measure_kappa.value_or(0),
        emulation_ ? &emulation_->observer() : nullptr,
        [this](std::int64_t group) {
          if (checkpointing_) checkpointing_->on_update(group);
        },
        control_ ? &*control_ : nullptr, options_.trace_events});
    start();
    channel_->add_helper(&signals_, [this] { heed_signals(); });
    auto epoch = inputs_.resume ? static_cast<std::int64_t>(inputs_.resume->progress.epochs.size())
                                : std::int64_t{0};
    bool goes_on = true;
    for (; goes_on && epoch * order_.groups_per_epoch() < total_updates_; ++epoch) {
      goes_on = run_epoch(epoch);
    }
    if (checkpointing_) checkpointing_->finish();
    channel_->remove_helper(&signals_);
    if (!goes_on) end_early();
    save();
    report();
  }

  /// Tells whoever shows or writes the run's news, as far as this rank has any.
  void note_failure(const std::exception& failure) {
    const bool stopped = dynamic_cast<const StoppedError*>(&failure) != nullptr;
    if (outputs_) monitor().end(stopped ? RunStatus::stopped : RunStatus::failed, failure.what());
  }

 private:
  bool leader() const { return world_.rank() == 0; }
  /// On rank 0.
  RunMonitor& monitor() { return outputs_->monitor(); }

  const probe::RankPlace& own_place() const {
    return places_[static_cast<std::size_t>(world_.rank())];
  }

  std::int64_t largest_microbatch() const {
    return (options_.batch + inputs_.plan.microbatches - 1) / inputs_.plan.microbatches;
  }

  std::span<const model::Layer> own_layers() const {
    const auto s = static_cast<std::size_t>(inputs_.plan.stage_of(world_.rank()));
    return plan::layers_of(inputs_.model, inputs_.plan.stages[s]);
  }

  /// Before any of it is allocated.
  MemoryVerdict judge_own_memory() {
    const auto rooms = share_rooms(world_, own_room(world_.host(), program_bytes_));
    return judge_memory(forecast_memory(inputs_.model, inputs_.plan, largest_microbatch(),
                                        options_.optimizer, *ops_, rooms,
                                        options_.checkpoints.enabled()));
  }

  /// Calls `part` with the feed of a segment. On the first stage a thread prepares its images
  /// ahead, by default where they are read from a file as training goes on.
  template <typename Part>
  auto with_feed(const pipeline::Feed& feed, const NormalisedImages& images,
                 const schedule::Stream& stream, Part&& part) {
    const std::int64_t depth = options_.prefetch.value_or(images.in_blocks() ? k_prefetch : 0);
    if (inputs_.plan.stage_of(world_.rank()) != 0 || depth == 0) return part(feed);
    std::vector<std::int64_t> microbatches;
    for (const schedule::Instruction& instruction : stream) {
      const bool reads =
          instruction.op == schedule::Op::forward || instruction.op == schedule::Op::forward_lean;
      if (reads) microbatches.push_back(instruction.index);
    }
    const PrefetchedFeed ahead(
        feed,
        {std::move(microbatches), inputs_.model.input, options_.dtype, largest_microbatch(), depth,
         [this](const auto& done, const auto& what) { channel_->wait_until(done, what); }});
    return part(ahead);
  }

  RunExtent extent() const {
    const std::int64_t groups = order_.groups_per_epoch();
    return {(total_updates_ + groups - 1) / groups, groups, total_updates_,
            emulation_ && emulation_->is_virtual()};
  }

  void announce() {
    const MemoryVerdict memory = judge_own_memory();
    if (!options_.trace.empty()) {
      clock_offsets_ = share_clock_offsets(*channel_, world_, clock_, places_);
    }
    world_.together([&] {
      if (!leader()) return;
      if (!memory.refusals.empty()) {
        throw base::InputError(options_.model, "memory", memory.refusals.front());
      }
      if (options_.checkpoints.enabled()) {
        folder_.emplace(options_.checkpoints.folder, inputs_.resume);
      }
      outputs_.emplace(RunOutputs::Setup{options_, inputs_, ops_->name(), extent(), clock_,
                                         emulation_ ? emulation_->report_clock() : clock_, places_,
                                         clock_offsets_});
      fmt::print("{}{}\n{}\n", describe_emulation(options_, inputs_),
                 describe_start(options_, inputs_, ops_->name()), describe_places(places_));
      std::fflush(stdout);
      std::vector<std::string> warnings = plan_warnings(options_, inputs_);
      if (inputs_.resume) {
        const auto changes = compare_config(*inputs_.resume, own_config());
        warnings.insert(warnings.end(), changes.begin(), changes.end());
      }
      for (const auto& warning : probe::placement_warnings(places_)) {
        warnings.push_back(warning.text);
      }
      warnings.insert(warnings.end(), memory.warnings.begin(), memory.warnings.end());
      if (folder_ && !folder_->warning().empty()) warnings.push_back(folder_->warning());
      for (const std::string& warning : warnings) monitor().notice(warning);
    });
  }

  void on_group(const pipeline::GroupMetrics& metrics) {
    if (emulation_) emulation_->note_group(metrics.group);
    monitor().on_group(metrics, order_.group_size(metrics.group), learning_rate_.at(metrics.group));
    if (checkpointing_) checkpointing_->on_group(metrics.group, [this] { return progress(); });
  }

  /// Fresh weights, given ones, or the state that the run goes on from.
  void start() {
    if (inputs_.resume) {
      update_ = inputs_.resume->facts.update;
      restore_state(*inputs_.resume, inputs_.plan, inputs_.model, options_, device_, *worker_);
      if (leader()) monitor().resume(inputs_.resume->progress, update_);
    } else {
      worker_->load(starting_state(options_, own_layers()), 0, options_.model);
    }
    if (!control_) return;
    checkpointing_.emplace(
        Checkpointing::Setup{options_.checkpoints, inputs_.model, inputs_.plan, *channel_, clock_,
                             nn::state_names(options_.optimizer), order_.groups_per_epoch(),
                             update_,
                             [this](std::int64_t update) { return checkpoint_facts(update); },
                             [this](const CheckpointEvent& event) { monitor().checkpoint(event); },
                             [this](const std::string& text) { monitor().notice(text); }},
        *worker_, device_);
  }

  io::CheckpointFacts checkpoint_facts(std::int64_t update) const {
    io::CheckpointFacts facts;
    facts.model = inputs_.model.name;
    facts.dtype = tensor::name_of(options_.dtype);
    facts.update = update;
    facts.epoch = update / order_.groups_per_epoch();
    facts.optimizer = nn::name_of(options_.optimizer.kind);
    facts.optimizer_steps = update;
    facts.created = base::utc_now();
    facts.program = fmt::format("dynpipe {}", base::version());
    facts.plan = plan::to_json(inputs_.plan, inputs_.model);
    facts.config = own_config();
    return facts;
  }

  std::string own_config() const {
    return checkpoint_config(options_, config_json(options_, inputs_.plan, ops_->name()),
                             inputs_.extent.train, inputs_.extent.shuffle);
  }

  std::string progress() { return leader() ? to_json(monitor().progress()) : ""; }

  /// Without checkpoints a signal ends the run; with them it stops as soon as all ranks can.
  void heed_signals() {
    if (!control_) return signals_->check(clock_.now_s());
    if (!leader() || stop_noted_ || StopSignals::came().empty()) return;
    stop_noted_ = true;
    control_->ask_to_stop();
    monitor().notice(StopSignals::came() + ": saves its state and stops");
  }

  /// Whether rank 0 has noted that the run shall stop; between two segments, on all ranks alike.
  bool shall_stop() { return control_ && world_.sum({stop_noted_ ? 1.0 : 0.0})[0] > 0; }

  /// Returns whether the run goes on.
  bool run_epoch(std::int64_t epoch) {
    order_.prepare(epoch);
    if (leader()) monitor().begin_epoch(epoch);
    const std::int64_t first = std::max(epoch * order_.groups_per_epoch(), update_);
    const std::int64_t whole = (epoch + 1) * order_.groups_per_epoch();
    const std::int64_t end = std::min(whole, total_updates_);
    if (first < end) train({first, end}, epoch);
    if (checkpointing_ && (shall_stop() || update_ < whole)) {
      checkpointing_->take(update_, false, progress());
      if (update_ < end || shall_stop()) return false;
    }
    evaluate();
    if (!checkpointing_) return true;
    const bool best = !world_.broadcast(leader() && monitor().last_is_best() ? "best" : "").empty();
    const bool keeps = best && options_.checkpoints.keep_best;
    const bool stops = shall_stop();
    if (keeps || stops || update_ == total_updates_ ||
        checkpointing_->due_after_evaluation(update_)) {
      checkpointing_->take(update_, best, progress());
    }
    return !stops;
  }

  void train(schedule::Segment segment, std::int64_t epoch) {
    with_feed(TrainingFeed(order_, inputs_.train, {options_.augmentation, options_.seed}),
              inputs_.train, schedule::training_stream(inputs_.plan, world_.rank(), segment),
              [&](const pipeline::Feed& feed) { update_ = worker_->train(segment, epoch, feed); });
    if (emulation_) emulation_->note_end();
  }

  void evaluate() {
    if (leader()) monitor().begin_evaluation();
    const std::int64_t m = inputs_.plan.microbatches;
    const std::int64_t groups = (test_order_.microbatches() + m - 1) / m;
    const pipeline::EvaluationTotals own =
        with_feed(EvaluationFeed(test_order_, inputs_.test), inputs_.test,
                  schedule::evaluation_stream(inputs_.plan, world_.rank(), groups * m),
                  [&](const pipeline::Feed& feed) { return worker_->evaluate(groups * m, feed); });
    if (emulation_) emulation_->note_end();
    const std::vector<double> all = world_.sum({own.loss_sum, own.correct, own.samples});
    if (leader()) monitor().end_epoch(all[0] / all[2], all[1] / all[2]);
  }

  /// A signal came: the run can go on from its last checkpoint.
  void end_early() {
    const std::string newest = world_.broadcast(
        leader() && checkpointing_->newest() ? checkpointing_->newest()->path : "");
    const std::string signal = world_.broadcast(StopSignals::came());
    const std::string reason =
        newest.empty() ? fmt::format("stopped by {} after update {}; its state could not be saved",
                                     signal, update_)
                       : fmt::format(
                             "stopped by {} after update {}, saved in {}: --resume auto "
                             "goes on from there",
                             signal, update_, newest);
    if (outputs_) monitor().end(RunStatus::stopped, reason);
    throw comm::AgreedError(newest.empty() ? base::ExitCode::failed_run : base::ExitCode::requeue,
                            reason);
  }

  void save() {
    if (options_.save_weights.empty()) return;
    save_weights(options_.save_weights, inputs_.model, inputs_.plan, options_.dtype,
                 worker_->state(), world_);
  }

  void report() {
    const RankResult own{world_.rank(),    inputs_.plan.stage_of(world_.rank()),
                         world_.host(),    worker_->times(),
                         peak_rss_bytes(), own_place().threads};
    const std::vector<std::string> texts = world_.gather(pack(own));
    const std::vector<std::string> comparisons =
        world_.gather(pack(worker_->gradient_comparisons()));
    world_.together([&] {
      if (!leader()) return;
      TrainResult result{RunStatus::completed,     "",
                         monitor().epochs(),       {},
                         monitor().update_times(), monitor().samples_per_s()};
      for (const std::string& text : texts) result.ranks.push_back(unpack_rank_result(text));
      result.staleness = find_staleness(comparisons);
      result.checkpoints = monitor().checkpoints();
      outputs_->complete(result, comparisons);
    });
  }

  const TrainOptions& options_;
  comm::World& world_;
  std::optional<StopSignals> signals_;
  base::SteadyClock clock_;
  std::int64_t program_bytes_;  ///< resident before samples are read
  TrainInputs inputs_;
  std::vector<probe::RankPlace> places_;
  device::CpuDevice device_;
  std::unique_ptr<ops::Ops> ops_;
  std::unique_ptr<comm::Channel> channel_;
  data::SampleOrder order_;
  data::EvaluationOrder test_order_;
  std::int64_t total_updates_;
  nn::LearningRate learning_rate_;

  std::optional<Emulation> emulation_;

  // On rank 0:
  std::vector<comm::ClockOffset> clock_offsets_;  ///< by rank
  std::optional<CheckpointFolder> folder_;
  std::optional<RunOutputs> outputs_;

  std::int64_t update_ = 0;  ///< made, between two segments
  bool stop_noted_ = false;  ///< on rank 0: a signal came
  std::optional<pipeline::ControlLink> control_;
  std::unique_ptr<pipeline::Worker> worker_;
  std::optional<Checkpointing> checkpointing_;
};

}  // namespace

void train(const std::vector<std::string>& words, comm::World& world,
           const std::function<void(const std::exception&)>& on_failure) {
  std::optional<TrainOptions> options;
  world.together([&] {
    options = parse_train_options(words);
    const std::string mismatch = probe::launcher_mismatch(world.size(), std::getenv);
    if (options && !mismatch.empty()) throw base::InputError("", "", mismatch);
  });
  require_same_options(options ? options->texts : OptionTexts{{"help", ""}}, world);
  if (!options) {
    if (world.rank() == 0) fmt::print("{}", train_help());
    return;
  }
  world.set_deadline(options->deadline_s);
  if (options->dry_run) return dry_run(*options, world);
  TrainSession session(*options, world);
  try {
    session.run();
  } catch (const comm::AgreedError&) {
    throw;
  } catch (const std::exception& failure) {
    session.note_failure(failure);
    on_failure(failure);
    throw;
  }
}

}  // namespace dynpipe::app
