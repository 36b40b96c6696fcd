#include "app/train_session.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "app/backend.hpp"
#include "app/dry_run.hpp"
#include "app/memory_forecast.hpp"
#include "app/prefetched_feed.hpp"
#include "app/progress.hpp"
#include "app/rank_places.hpp"
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

void write_file(const std::string& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  if (!(stream << text) || !stream.flush()) {
    throw base::InputError(file, "", "cannot be written");
  }
}

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

/// Time from one update's news to the next, on rank 0.
class UpdateClock {
 public:
  explicit UpdateClock(const base::Clock& clock) : clock_(clock) {}
  void begin() { last_s_ = clock_.now_s(); }
  void tick() {
    const double now_s = clock_.now_s();
    intervals_s_.push_back(now_s - last_s_);
    last_s_ = now_s;
  }
  UpdateTimes times() {
    if (intervals_s_.empty()) return {};
    std::sort(intervals_s_.begin(), intervals_s_.end());
    const auto at = [&](double share) {
      return intervals_s_[static_cast<std::size_t>(share *
                                                   static_cast<double>(intervals_s_.size() - 1))];
    };
    return {at(0.5), at(0.9), static_cast<std::int64_t>(intervals_s_.size())};
  }

 private:
  const base::Clock& clock_;
  double last_s_ = 0;
  std::vector<double> intervals_s_;
};

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
        update_clock_(clock_) {
    if (leader()) {
      progress_.emplace(options.progress, options.log_every,
                        Progress::Extent{options.epochs, order_.groups_per_epoch(), total_updates_},
                        clock_, stdout);
    }
  }

  void run() {
    announce();
    pipeline::Worker worker(
        {inputs_.model, inputs_.plan, device_, *channel_, *ops_, clock_, options_.optimizer,
         learning_rate(options_, order_.groups_per_epoch(), total_updates_), largest_microbatch(),
         options_.seed, [this](const pipeline::GroupMetrics& metrics) { on_group(metrics); },
         options_.label_smoothing});
    worker.load(nn::initial_state(own_layers(), options_.seed), 0, options_.model);
    for (std::int64_t epoch = 0; epoch * order_.groups_per_epoch() < total_updates_; ++epoch) {
      run_epoch(worker, epoch);
    }
    report(worker);
  }

  /// Leaves the reason in the summary, as far as this rank may.
  void note_failure(const std::exception& failure) {
    if (progress_) progress_->close_line();
    if (leader() && !options_.summary.empty()) {
      write_file(options_.summary, failed_summary_json(failure.what()));
    }
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

  /// Calls `part` with the feed of a segment. On the first stage a thread prepares its images ahead
  /// where that is asked for or pays: decoding from a file does, writing from memory does not.
  template <typename Part>
  auto with_feed(const pipeline::Feed& feed, const NormalisedImages& images,
                 const schedule::Stream& stream, Part&& part) {
    const std::int64_t depth = options_.prefetch.value_or(images.in_blocks() ? k_prefetch : 0);
    if (inputs_.plan.stage_of(world_.rank()) != 0 || depth == 0) return part(feed);
    std::vector<std::int64_t> microbatches;
    for (const schedule::Instruction& instruction : stream) {
      const bool reads = instruction.op == schedule::Op::forward ||
                         instruction.op == schedule::Op::forward_lean;
      if (reads) microbatches.push_back(instruction.index);
    }
    const PrefetchedFeed ahead(
        feed,
        {std::move(microbatches), inputs_.model.input, options_.dtype, largest_microbatch(), depth,
         [this](const auto& done, const auto& what) { channel_->wait_until(done, what); }});
    return part(ahead);
  }

  void announce() {
    const MemoryVerdict memory = judge_own_memory();
    world_.together([&] {
      if (!leader()) return;
      if (!memory.refusals.empty()) {
        throw base::InputError(options_.model, "memory", memory.refusals.front());
      }
      if (!options_.write_plan.empty()) {
        write_file(options_.write_plan, plan::to_json(inputs_.plan, inputs_.model));
      }
      // What cannot be written at the end is known at the start.
      if (!options_.summary.empty()) write_file(options_.summary, "{\"status\": \"running\"}\n");
      fmt::print("{}\n{}\n", describe_start(options_, inputs_, ops_->name()),
                 describe_places(places_));
      std::fflush(stdout);
      std::vector<std::string> warnings = plan_warnings(options_, inputs_);
      for (const auto& warning : probe::placement_warnings(places_)) {
        warnings.push_back(warning.text);
      }
      warnings.insert(warnings.end(), memory.warnings.begin(), memory.warnings.end());
      for (const std::string& warning : warnings) {
        fmt::print(stderr, "dynpipe: warning: {}\n", warning);
      }
    });
  }

  void on_group(const pipeline::GroupMetrics& metrics) {
    update_clock_.tick();
    progress_->on_group(metrics, order_.group_size(metrics.group));
  }

  void run_epoch(pipeline::Worker& worker, std::int64_t epoch) {
    const double began_s = clock_.now_s();
    order_.prepare(epoch);
    update_clock_.begin();
    if (leader()) progress_->begin_epoch(epoch);
    const std::int64_t first = epoch * order_.groups_per_epoch();
    const std::int64_t end = std::min(first + order_.groups_per_epoch(), total_updates_);
    const schedule::Segment segment{first, end};
    with_feed(TrainingFeed(order_, inputs_.train, {options_.augmentation, options_.seed}),
              inputs_.train, schedule::training_stream(inputs_.plan, world_.rank(), segment),
              [&](const pipeline::Feed& feed) { worker.train(segment, epoch, feed); });

    const std::int64_t m = inputs_.plan.microbatches;
    const std::int64_t groups = (test_order_.microbatches() + m - 1) / m;
    const pipeline::EvaluationTotals own =
        with_feed(EvaluationFeed(test_order_, inputs_.test), inputs_.test,
                  schedule::evaluation_stream(inputs_.plan, world_.rank(), groups * m),
                  [&](const pipeline::Feed& feed) { return worker.evaluate(groups * m, feed); });
    const std::vector<double> all = world_.sum({own.loss_sum, own.correct, own.samples});
    if (!leader()) return;
    EpochResult result;
    result.epoch = epoch + 1;
    result.train_loss = progress_->mean_loss();
    result.train_accuracy = progress_->accuracy();
    result.test_loss = all[0] / all[2];
    result.test_accuracy = all[1] / all[2];
    result.wall_s = clock_.now_s() - began_s;
    result.train_s = progress_->train_seconds();
    result.samples = static_cast<std::int64_t>(progress_->samples());
    result_.epochs.push_back(result);
    progress_->end_epoch(epoch, result.test_loss, result.test_accuracy);
  }

  void report(const pipeline::Worker& worker) {
    const RankResult own{world_.rank(),    inputs_.plan.stage_of(world_.rank()),
                         world_.host(),    worker.times(),
                         peak_rss_bytes(), own_place().threads};
    for (const std::string& text : world_.gather(pack(own))) {
      result_.ranks.push_back(unpack_rank_result(text));
    }
    world_.together([&] {
      if (!leader()) return;
      double samples = 0;
      double seconds = 0;
      for (const EpochResult& epoch : result_.epochs) {
        samples += static_cast<double>(epoch.samples);
        seconds += epoch.train_s;
      }
      result_.samples_per_s = samples / std::max(seconds, 1e-9);
      result_.updates = update_clock_.times();
      fmt::print("{}", describe_result(result_, inputs_.plan));
      if (!options_.summary.empty()) {
        write_file(options_.summary, summary_json(options_, inputs_, result_, ops_->name()));
        fmt::print("\nsummary written to {}\n", options_.summary);
      }
      std::fflush(stdout);
    });
  }

  const TrainOptions& options_;
  comm::World& world_;
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
  UpdateClock update_clock_;
  std::optional<Progress> progress_;
  TrainResult result_;
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
