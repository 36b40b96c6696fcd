#include "app/train_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "app/option_group.hpp"
#include "app/option_parser.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

namespace po = boost::program_options;
using base::InputError;

constexpr std::int64_t k_many = 1'000'000;
constexpr int k_most_threads = 1024;
constexpr int k_most_ranks = 4096;

/// Values as their words stand on the command line, before they are checked.
struct Raw {
  std::string config, augment, replicas, no_decay, stages;
  std::string schedule = "async", weights = "2bw", optimizer = "sgd", lr_schedule = "cosine";
  std::string dtype = "float32", progress = "auto", emulation = "virtual";
  RawCheckpointOptions checkpoints;
  std::int64_t seed = 1;
};

OptionGroup task_options(TrainOptions& o, Raw& raw) {
  OptionGroup group("What to train");
  option(group, "model", &o.model, "FILE",
         "model description (JSON, see models/README.md); required");
  option(group, "data", &o.data, "PLACE",
         "data set: an HDF5 file, or a folder of IDX or CIFAR files (data/README.md); required");
  option(group, "epochs", &o.epochs, "N", "passes over the training samples");
  option(group, "max-updates", &o.max_updates, "N",
         "stop after so many weight updates, at the end of the last epoch at the latest");
  option(group, "batch", &o.batch, "N", "samples of a weight update, over all microbatches");
  option(group, "seed", &raw.seed, "N", "of initial weights, shuffling, augmentation and dropout");
  option(group, "shuffle-window", &o.shuffle_window_mib, "MIB",
         "memory for images of an HDF5 file; a larger set is shuffled in windows of half of it");
  option(group, "augment", &raw.augment, "WORDS",
         "change training images at random: flip (left-right, every other one), crop[:PAD] (cut "
         "from the image with PAD, by default 4, black pixels around it), or flip,crop");
  option(group, "prefetch", &o.prefetch, "N",
         "microbatches of images that a thread prepares ahead on the first stage (default: 4 for "
         "an HDF5 file, else 0)");
  option(group, "config", &raw.config, "FILE",
         "read further options from FILE, one `option = value` a line; the command line wins");
  return group;
}

OptionGroup plan_options(TrainOptions& o, Raw& raw) {
  OptionGroup group("How to spread it over the MPI ranks");
  option(group, "plan", &o.plan, "FILE",
         "plan (JSON: stages, ranks, owners, warm-up); says all of this group");
  option(group, "stages", &raw.stages, "N",
         "pipeline stages (default: one a rank), or auto: as many as are best, with replicas");
  option(group, "algorithm", &o.algorithm, "NAME",
         "cuts stages by the times of layers (dynpipe) or to equal FLOPs (flops)");
  option(group, "kappa", &o.kappa, "X",
         "dynpipe: a plan's time counts (1 + X delay) times, see dynpipe plan");
  option(group, "replicas", &raw.replicas, "R,R,...",
         "ranks of each stage (default: spread evenly)");
  option(group, "schedule", &raw.schedule, "NAME",
         "async, zb-h1, 1f1b or gpipe; all but async wait for every update");
  option(group, "weights", &raw.weights, "NAME",
         "versions of async: 2bw (same delay on all stages) or stash (each its own)");
  option(group, "microbatches", &o.microbatches, "M",
         "parts of a batch that follow one another through the pipeline");
  option(group, "recompute", &o.recompute, "STAGES",
         "all, none or numbers such as 0,2: keep inputs only, run forwards again (less memory)");
  option(group, "write-plan", &o.write_plan, "FILE",
         "write the plan that is used, to edit and give to --plan");
  return group;
}

OptionGroup optimizer_options(TrainOptions& o, Raw& raw) {
  OptionGroup group("Optimizer");
  option(group, "optimizer", &raw.optimizer, "NAME", "sgd, adam, adamw or nadam");
  option(group, "lr", &o.learning_rate, "X", "learning rate");
  option(group, "lr-schedule", &raw.lr_schedule, "NAME",
         "constant, step or cosine (to 0 at the last update)");
  option(group, "lr-warmup", &o.warmup_updates, "N",
         "updates over which the rate rises linearly at the start");
  option(group, "lr-step-epochs", &o.step_epochs, "N", "step: every N epochs ...");
  option(group, "lr-step-factor", &o.step_factor, "X", "... times this");
  option(group, "momentum", &o.optimizer.momentum, "X", "sgd: momentum");
  flag(group, "nesterov", &o.optimizer.nesterov, "sgd: Nesterov momentum");
  option(group, "weight-decay", &o.optimizer.weight_decay, "X",
         "of all parameters but those of --no-decay; decoupled with adamw");
  option(group, "no-decay", &raw.no_decay, "KIND,...",
         "without weight decay: norms (scales and shifts of batch norm), biases (of other layers), "
         "or norms,biases");
  option(group, "beta1", &o.optimizer.beta1, "X", "adam, adamw, nadam: decay of the mean");
  option(group, "beta2", &o.optimizer.beta2, "X", "adam, adamw, nadam: decay of the square");
  option(group, "momentum-decay", &o.optimizer.momentum_decay, "X",
         "nadam: how fast its momentum rises to beta1");
  option(group, "label-smoothing", &o.label_smoothing, "X",
         "share of the target that goes to all classes alike, 0 to 1, in training; test losses are "
         "without");
  return group;
}

OptionGroup run_options(TrainOptions& o, Raw& raw) {
  OptionGroup group("Running and reporting");
  option(group, "dtype", &raw.dtype, "NAME", "float32 or float64 (reference maths: slow)");
  option(group, "backend", &o.backend, "NAME", "auto, onednn or reference");
  option(group, "threads", &o.threads, "N",
         "threads of each rank's maths (default: OMP_NUM_THREADS; else the rank's share of the "
         "cores that it is bound to, at most SLURM_CPUS_PER_TASK; else 1)");
  option(group, "save-weights", &o.save_weights, "FILE",
         "write the trained weights to FILE (HDF5), for dynpipe eval");
  option(group, "profile", &o.profile, "FILE",
         "times of the model's layers, by dynpipe profile (default: measured, and kept)");
  option(group, "emulate", &o.emulate, "FILE",
         "run on a described cluster (JSON, see data/README.md): real maths, its times");
  option(group, "emulate-mode", &raw.emulation, "MODE",
         "virtual (clocks show the described times) or paced (ranks are held back to them)");
  flag(group, "dry-run", &o.dry_run,
       "say what each rank would hold and how long it would wait, and train nothing");
  option(group, "ranks", &o.ranks, "N", "dry-run, without mpirun: as if the job had N ranks");
  option(group, "summary", &o.summary, "FILE", "write results to FILE (JSON)");
  option(group, "metrics", &o.metrics, "FILE",
         "write a record of every update and evaluation to FILE (JSON lines, or .csv)");
  option(group, "trace", &o.trace, "FILE",
         "write what happens to FILE (HDF5, for dynpipe trace and h5py; see lib/io/README.md)");
  flag(group, "trace-events", &o.trace_events,
       "trace: every forward, backward, update and wait of every rank too");
  option(group, "progress", &raw.progress, "STYLE",
         "auto, live (two lines written over, for terminals) or log");
  option(group, "log-every", &o.log_every, "N", "log: a line every N updates");
  option(group, "deadline", &o.deadline_s, "SECONDS",
         "give up when a rank has waited so long for another");
  option(group, "measure-kappa", &o.measure_kappa, "N",
         "every N updates compare the gradient with the 8 before it, and tell in the summary what "
         "delay costs (kappa)");
  group.add_options()("help", "this text");
  return group;
}

OptionGroup describe(TrainOptions& o, Raw& raw) {
  OptionGroup all;
  all.add(task_options(o, raw)).add(plan_options(o, raw));
  all.add(optimizer_options(o, raw)).add(checkpoint_options(o.checkpoints, raw.checkpoints));
  all.add(run_options(o, raw));
  return all;
}

/// A number, or "auto".
void parse_stages(const std::string& text, TrainOptions& options) {
  if (text == "auto") {
    options.any_stages = true;
    return;
  }
  const std::vector<int> numbers =
      text.empty() ? std::vector<int>{} : parse_counts(text, "--stages");
  if (numbers.size() != 1) {
    throw InputError("", "--stages", fmt::format("'{}' is neither a number nor auto", text));
  }
  options.stages = numbers[0];
}

/// "norms", "biases" or both, separated by a comma.
void parse_no_decay(const std::string& text, nn::OptimizerSettings& optimizer) {
  std::istringstream stream(text + ",");
  for (std::string word; std::getline(stream, word, ',');) {
    if (word == "norms") {
      optimizer.decay_norms = false;
    } else if (word == "biases") {
      optimizer.decay_biases = false;
    } else {
      throw InputError("", "--no-decay",
                       fmt::format("'{}' is not known; known are norms, biases", word));
    }
  }
  if (optimizer.weight_decay == 0) {
    throw InputError("", "--no-decay", "means nothing without --weight-decay");
  }
}

template <typename Number>
void require(bool holds, const char* option, Number value, const char* rule) {
  if (!holds) throw InputError("", option, fmt::format("must be {}, is {}", rule, value));
}

void check_ranges(const TrainOptions& o) {
  if (o.model.empty()) throw InputError("", "--model", "is missing");
  if (o.data.empty()) throw InputError("", "--data", "is missing");
  require(o.epochs >= 1 && o.epochs <= k_many, "--epochs", o.epochs, "1 to 1000000");
  require(o.batch >= 1 && o.batch <= k_many, "--batch", o.batch, "1 to 1000000");
  require(o.shuffle_window_mib >= 1 && o.shuffle_window_mib <= k_many, "--shuffle-window",
          o.shuffle_window_mib, "1 to 1000000");
  require(o.microbatches >= 1 && o.microbatches <= plan::k_most_microbatches, "--microbatches",
          o.microbatches, "1 to 4096");
  if (o.prefetch) {
    require(*o.prefetch >= 0 && *o.prefetch <= 1024, "--prefetch", *o.prefetch, "0 to 1024");
  }
  if (o.max_updates) require(*o.max_updates >= 1, "--max-updates", *o.max_updates, "at least 1");
  if (o.measure_kappa) {
    require(*o.measure_kappa >= 1 && *o.measure_kappa <= k_many, "--measure-kappa",
            *o.measure_kappa, "1 to 1000000");
  }
  if (o.trace_events && o.trace.empty()) {
    throw InputError("", "--trace-events", "means nothing without --trace");
  }
  require(o.log_every >= 1, "--log-every", o.log_every, "at least 1");
  require(o.step_epochs >= 1 && o.step_epochs <= k_many, "--lr-step-epochs", o.step_epochs,
          "1 to 1000000");
  require(o.warmup_updates >= 0, "--lr-warmup", o.warmup_updates, "at least 0");
  const auto finite_from_0 = [](double x) { return std::isfinite(x) && x >= 0; };
  require(finite_from_0(o.learning_rate), "--lr", o.learning_rate, "a number of at least 0");
  require(finite_from_0(o.step_factor), "--lr-step-factor", o.step_factor, "at least 0");
  require(finite_from_0(o.optimizer.weight_decay), "--weight-decay", o.optimizer.weight_decay,
          "at least 0");
  for (const auto& [option, value] :
       {std::pair{"--momentum", o.optimizer.momentum}, std::pair{"--beta1", o.optimizer.beta1},
        std::pair{"--beta2", o.optimizer.beta2}}) {
    require(value >= 0 && value < 1, option, value, "at least 0 and below 1");
  }
  require(finite_from_0(o.kappa), "--kappa", o.kappa, "at least 0");
  if (o.algorithm != "dynpipe" && o.algorithm != "flops") {
    throw InputError("", "--algorithm",
                     fmt::format("'{}' is not known; known are dynpipe, flops", o.algorithm));
  }
  if (!o.emulate.empty() && o.profile.empty()) {
    throw InputError("", "--emulate",
                     "needs --profile: what the steps take where nothing slows them down, as "
                     "dynpipe profile writes it");
  }
  const bool planned = o.plan.empty() && o.replicas.empty() && o.algorithm == "dynpipe";
  if (!o.profile.empty() && o.emulate.empty() && !planned) {
    throw InputError("", "--profile",
                     "means nothing with --plan, --replicas or --algorithm flops, unless a "
                     "cluster is emulated");
  }
  if (o.any_stages && (o.algorithm != "dynpipe" || !o.replicas.empty())) {
    throw InputError("", "--stages", "auto is for --algorithm dynpipe, without --replicas");
  }
  if (o.ranks) {
    require(*o.ranks >= 1 && *o.ranks <= k_most_ranks, "--ranks", *o.ranks, "1 to 4096");
    if (!o.dry_run) throw InputError("", "--ranks", "is for --dry-run; a job has mpirun's -n");
  }
  require(finite_from_0(o.optimizer.momentum_decay), "--momentum-decay", o.optimizer.momentum_decay,
          "at least 0");
  require(o.label_smoothing >= 0 && o.label_smoothing <= 1, "--label-smoothing", o.label_smoothing,
          "0 to 1");
  if (o.optimizer.nesterov && o.optimizer.momentum == 0) {
    throw InputError("", "--nesterov", "needs --momentum above 0");
  }
}

/// What the chosen optimizer would ignore.
void check_optimizer_alone(const TrainOptions& o, const po::variables_map& values) {
  using enum nn::OptimizerKind;
  const std::vector<std::pair<const char*, std::vector<nn::OptimizerKind>>> owners = {
      {"momentum", {sgd}},
      {"nesterov", {sgd}},
      {"beta1", {adam, adamw, nadam}},
      {"beta2", {adam, adamw, nadam}},
      {"momentum-decay", {nadam}}};
  for (const auto& [option, kinds] : owners) {
    const bool known = std::ranges::find(kinds, o.optimizer.kind) != kinds.end();
    if (!known && !values[option].defaulted()) {
      throw InputError(
          "", fmt::format("--{}", option),
          fmt::format("means nothing to --optimizer {}", nn::name_of(o.optimizer.kind)));
    }
  }
}

void translate(const Raw& raw, const po::variables_map& values, TrainOptions& o) {
  o.schedule = plan::schedule_named(raw.schedule, "", "--schedule");
  o.policy = plan::policy_named(raw.weights, "", "--weights");
  o.optimizer.kind = nn::optimizer_named(raw.optimizer);
  o.learning_rate_kind = nn::learning_rate_named(raw.lr_schedule);
  if (values.count("no-decay") != 0) parse_no_decay(raw.no_decay, o.optimizer);
  if (!raw.stages.empty()) parse_stages(raw.stages, o);
  if (values.count("replicas") != 0) o.replicas = parse_counts(raw.replicas, "--replicas");
  require(raw.seed >= 0, "--seed", raw.seed, "at least 0");
  o.seed = static_cast<std::uint64_t>(raw.seed);
  if (raw.emulation == "paced") {
    o.emulation_mode = EmulationMode::paced;
  } else if (raw.emulation != "virtual") {
    throw InputError("", "--emulate-mode",
                     fmt::format("'{}' is not known; known are virtual, paced", raw.emulation));
  }
  if (o.emulate.empty() && !values["emulate-mode"].defaulted()) {
    throw InputError("", "--emulate-mode", "means nothing without --emulate");
  }
  if (raw.progress == "live") {
    o.progress = ProgressStyle::live;
  } else if (raw.progress == "log") {
    o.progress = ProgressStyle::log;
  } else if (raw.progress != "auto") {
    throw InputError("", "--progress",
                     fmt::format("'{}' is not known; known are auto, live, log", raw.progress));
  }
  if (!raw.augment.empty()) o.augmentation = data::Augmentation::parse(raw.augment, "--augment");
}

}  // namespace

void check_plan_alone(const std::string& plan, const po::variables_map& values) {
  if (plan.empty()) return;
  for (const char* option : {"stages", "replicas", "schedule", "weights", "microbatches",
                             "recompute", "algorithm", "kappa"}) {
    if (values.count(option) != 0 && !values[option].defaulted()) {
      throw InputError("", fmt::format("--{}", option),
                       fmt::format("contradicts --plan: change it in {}", plan));
    }
  }
}

void check_run_options(const std::string& dtype, TrainOptions& o) {
  if (dtype == "float64") {
    o.dtype = tensor::DType::float64;
  } else if (dtype != "float32") {
    throw InputError("", "--dtype",
                     fmt::format("'{}' is not known; known are float32, float64", dtype));
  }
  require(o.deadline_s >= 1, "--deadline", o.deadline_s, "at least 1");
  if (o.stages) require(*o.stages >= 1, "--stages", *o.stages, "at least 1");
  if (o.backend != "auto" && o.backend != "onednn" && o.backend != "reference") {
    throw InputError(
        "", "--backend",
        fmt::format("'{}' is not known; known are auto, onednn, reference", o.backend));
  }
  if (o.backend == "onednn" && o.dtype == tensor::DType::float64) {
    throw InputError("", "--backend", "onednn has no float64; use reference");
  }
  if (o.threads) {
    require(*o.threads >= 1 && *o.threads <= k_most_threads, "--threads", *o.threads, "1 to 1024");
  }
  if (!uses_onednn(o) && o.threads.value_or(1) > 1) {
    throw InputError("", "--threads", "the reference maths runs on one thread");
  }
}

bool uses_onednn(const TrainOptions& options) {
  return options.backend == "onednn" ||
         (options.backend == "auto" && options.dtype == tensor::DType::float32);
}

std::string train_help() {
  TrainOptions options;
  Raw raw;
  std::ostringstream text;
  text << "usage: mpirun -n RANKS dynpipe train --model FILE --data PLACE [options]\n\n"
          "Trains a network as a pipeline over MPI ranks.\n"
       << describe(options, raw)
       << "\nExit codes: 0 trained, 1 the run failed, 2 wrong usage or input, 75 stopped by a "
          "signal "
          "after\na checkpoint: --resume auto goes on.\n";
  return text.str();
}

std::optional<TrainOptions> parse_train_options(const std::vector<std::string>& words) {
  TrainOptions options;
  Raw raw;
  const OptionGroup all = describe(options, raw);
  const auto parsed = parse_words("train", words, all);
  if (!parsed) return std::nullopt;
  const po::variables_map& values = *parsed;
  check_plan_alone(options.plan, values);
  translate(raw, values, options);
  check_optimizer_alone(options, values);
  check_ranges(options);
  check_checkpoint_options(raw.checkpoints, values, options.checkpoints);
  check_run_options(raw.dtype, options);
  options.texts = texts_of(values);
  return options;
}

}  // namespace dynpipe::app
