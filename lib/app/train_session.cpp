#include "app/train_session.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "app/backend.hpp"
#include "app/dry_run.hpp"
#include "app/memory_forecast.hpp"
#include "app/metrics_file.hpp"
#include "app/prefetched_feed.hpp"
#include "app/progress.hpp"
#include "app/rank_places.hpp"
#include "app/run_monitor.hpp"
#include "app/same_options.hpp"
#include "app/stop_signals.hpp"
#include "app/summary_file.hpp"
#include "app/terminal.hpp"
#include "app/text_file.hpp"
#include "app/train_inputs.hpp"
#include "app/train_options.hpp"
#include "app/train_report.hpp"
#include "base/errors.hpp"
#include "comm/mpi/mpi.hpp"
#include "device/cpu/cpu_device.hpp"
#include "nn/parameters.hpp"
#include "pipeline/worker.hpp"
#include "probe/crowding.hpp"
#include "probe/launcher.hpp"
#include "probe/placement_warnings.hpp"

namespace dynpipe::app {
namespace {

comm::WaitPolicy wait_policy(const TrainOptions& options, bool has_its_cores) {
  // The default slack of 50 us would stretch every nap by half.
  prctl(PR_SET_TIMERSLACK, 1000UL);
  comm::WaitPolicy policy;
  policy.deadline_s = options.deadline_s;
  policy.spin_s = has_its_cores ? comm::WaitPolicy::k_spin_on_own_core_s : 0;
  return policy;
}

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
            world, clock_, wait_policy(options, probe::has_its_cores(places_, world.rank())))),
        order_(inputs_.extent.train, options.batch, inputs_.plan.microbatches, options.seed,
               inputs_.extent.shuffle),
        test_order_(inputs_.extent.test, largest_microbatch()),
        total_updates_(std::min(options.epochs * order_.groups_per_epoch(),
                                options.max_updates.value_or(INT64_MAX))),
        learning_rate_(learning_rate(options, order_.groups_per_epoch(), total_updates_)) {}

  void run() {
    signals_.emplace(leader() ? 0 : k_grace_s);
    announce();
    worker_ = std::make_unique<pipeline::Worker>(pipeline::WorkerSetup{
        inputs_.model, inputs_.plan, device_, *channel_, *ops_, clock_, options_.optimizer,
        learning_rate_, largest_microbatch(), options_.seed,
        [this](const pipeline::GroupMetrics& metrics) { on_group(metrics); },
        times_every(world_.size()),
        [this](const pipeline::TimesReport& report) { monitor_->on_times(report); },
        options_.label_smoothing, options_.measure_kappa.value_or(0)});
    worker_->load(nn::initial_state(own_layers(), options_.seed), 0, options_.model);
    channel_->add_helper(&signals_, [this] { signals_->check(clock_.now_s()); });
    for (std::int64_t epoch = 0; epoch * order_.groups_per_epoch() < total_updates_; ++epoch) {
      run_epoch(epoch);
    }
    channel_->remove_helper(&signals_);
    report();
  }

  /// Tells whoever shows or writes the run's news, as far as this rank has any.
  void note_failure(const std::exception& failure) {
    const bool stopped = dynamic_cast<const StoppedError*>(&failure) != nullptr;
    if (monitor_) monitor_->end(stopped ? RunStatus::stopped : RunStatus::failed, failure.what());
  }

 private:
  bool leader() const { return world_.rank() == 0; }

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
                                        options_.optimizer, *ops_, rooms));
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
    return {(total_updates_ + groups - 1) / groups, groups, total_updates_};
  }

  void add_sink(std::unique_ptr<RunSink> sink) {
    monitor_->add(*sink);
    sinks_.push_back(std::move(sink));
  }

  /// What cannot be written at the end is known at the start.
  void open_outputs() {
    if (!options_.write_plan.empty()) {
      replace_text_file(options_.write_plan, plan::to_json(inputs_.plan, inputs_.model));
    }
    monitor_.emplace(extent(), inputs_.plan, clock_);
    const auto warn = [this](const std::string& text) { monitor_->notice(text); };
    if (!options_.metrics.empty()) {
      add_sink(std::make_unique<MetricsFile>(options_.metrics, inputs_.plan.size(), clock_, warn));
    }
    // Last, so that no refusal of the others leaves a summary that says "running".
    if (!options_.summary.empty()) {
      auto to_json = [this](const TrainResult& result) {
        return summary_json(options_, inputs_, result, ops_->name());
      };
      auto summary = std::make_unique<SummaryFile>(options_.summary, std::move(to_json), warn);
      summary_ = summary.get();
      add_sink(std::move(summary));
    }
    add_sink(make_progress());
  }

  std::unique_ptr<RunSink> make_progress() const {
    const std::optional<Terminal> terminal = Terminal::of_stdout();
    const bool live = options_.progress == ProgressStyle::live ||
                      (options_.progress == ProgressStyle::automatic && terminal);
    if (!live) return std::make_unique<LogProgress>(extent(), options_.log_every, stdout);
    return std::make_unique<LiveProgress>(extent(), terminal.value_or(Terminal()),
                                          charset_of_locale(), clock_, stdout);
  }

  void announce() {
    const MemoryVerdict memory = judge_own_memory();
    world_.together([&] {
      if (!leader()) return;
      if (!memory.refusals.empty()) {
        throw base::InputError(options_.model, "memory", memory.refusals.front());
      }
      open_outputs();
      fmt::print("{}\n{}\n", describe_start(options_, inputs_, ops_->name()),
                 describe_places(places_));
      std::fflush(stdout);
      std::vector<std::string> warnings = plan_warnings(options_, inputs_);
      for (const auto& warning : probe::placement_warnings(places_)) {
        warnings.push_back(warning.text);
      }
      warnings.insert(warnings.end(), memory.warnings.begin(), memory.warnings.end());
      for (const std::string& warning : warnings) {
        monitor_->notice(warning);
      }
    });
  }

  void on_group(const pipeline::GroupMetrics& metrics) {
    monitor_->on_group(metrics, order_.group_size(metrics.group), learning_rate_.at(metrics.group));
  }

  void run_epoch(std::int64_t epoch) {
    order_.prepare(epoch);
    if (leader()) monitor_->begin_epoch(epoch);
    const std::int64_t first = epoch * order_.groups_per_epoch();
    const std::int64_t end = std::min(first + order_.groups_per_epoch(), total_updates_);
    const schedule::Segment segment{first, end};
    with_feed(TrainingFeed(order_, inputs_.train, {options_.augmentation, options_.seed}),
              inputs_.train, schedule::training_stream(inputs_.plan, world_.rank(), segment),
              [&](const pipeline::Feed& feed) { worker_->train(segment, epoch, feed); });

    if (leader()) monitor_->begin_evaluation();
    const std::int64_t m = inputs_.plan.microbatches;
    const std::int64_t groups = (test_order_.microbatches() + m - 1) / m;
    const pipeline::EvaluationTotals own =
        with_feed(EvaluationFeed(test_order_, inputs_.test), inputs_.test,
                  schedule::evaluation_stream(inputs_.plan, world_.rank(), groups * m),
                  [&](const pipeline::Feed& feed) { return worker_->evaluate(groups * m, feed); });
    const std::vector<double> all = world_.sum({own.loss_sum, own.correct, own.samples});
    if (leader()) monitor_->end_epoch(all[0] / all[2], all[1] / all[2]);
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
                         monitor_->epochs(),       {},
                         monitor_->update_times(), monitor_->samples_per_s()};
      for (const std::string& text : texts) result.ranks.push_back(unpack_rank_result(text));
      result.staleness = find_staleness(comparisons);
      monitor_->end(RunStatus::completed);
      fmt::print("{}", describe_result(result, inputs_.plan));
      if (summary_ != nullptr) {
        summary_->complete(result);
        fmt::print("\nsummary written to {}\n", options_.summary);
      }
      std::fflush(stdout);
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

  // On rank 0:
  std::optional<RunMonitor> monitor_;
  std::vector<std::unique_ptr<RunSink>> sinks_;
  SummaryFile* summary_ = nullptr;  ///< one of them; null: none is written

  std::unique_ptr<pipeline::Worker> worker_;
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
