#include "app/train_options.hpp"

#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "app/option_parser.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

namespace po = boost::program_options;
using base::InputError;

constexpr std::int64_t k_many = 1'000'000;

/// Values as their words stand on the command line, before they are checked.
struct Raw {
  std::string config, schedule, weights, replicas, optimizer, lr_schedule, dtype, progress;
  std::int64_t max_updates = 0;
  std::int64_t seed = 1;
  int stages = 0;
};

po::options_description describe(TrainOptions& o, Raw& raw) {
  const auto number = [](double value) { return fmt::format("{}", value); };
  po::options_description what("What to train");
  what.add_options()("model", po::value(&o.model)->value_name("FILE"),
                     "model description (JSON, see models/README.md); required")(
      "data", po::value(&o.data)->value_name("DIR"),
      "folder with the data set (IDX pairs, .gz or plain, see data/README.md); required")(
      "epochs", po::value(&o.epochs)->default_value(o.epochs)->value_name("N"),
      "passes over the training samples")(
      "max-updates", po::value(&raw.max_updates)->value_name("N"),
      "stop after so many weight updates, at the end of the last epoch at the latest")(
      "batch", po::value(&o.batch)->default_value(o.batch)->value_name("N"),
      "samples of a weight update, over all microbatches")(
      "seed", po::value(&raw.seed)->default_value(raw.seed)->value_name("N"),
      "of initial weights, shuffling and dropout")(
      "config", po::value(&raw.config)->value_name("FILE"),
      "read further options from FILE, one `option = value` a line; the command line wins");

  po::options_description how("How to spread it over the MPI ranks");
  how.add_options()("plan", po::value(&o.plan)->value_name("FILE"),
                    "plan (JSON: stages, ranks, owners, warm-up); says all of this group")(
      "stages", po::value(&raw.stages)->value_name("N"),
      "pipeline stages, cut to equal FLOPs (default: one a rank)")(
      "replicas", po::value(&raw.replicas)->value_name("R,R,..."),
      "ranks of each stage (default: spread evenly)")(
      "schedule", po::value(&raw.schedule)->default_value("async")->value_name("NAME"),
      "async, 1f1b or gpipe; the last two wait for every update")(
      "weights", po::value(&raw.weights)->default_value("2bw")->value_name("NAME"),
      "versions of async: 2bw (same delay on all stages) or stash (each its own)")(
      "microbatches", po::value(&o.microbatches)->default_value(o.microbatches)->value_name("M"),
      "parts of a batch that follow one another through the pipeline")(
      "write-plan", po::value(&o.write_plan)->value_name("FILE"),
      "write the plan that is used, to edit and give to --plan");

  po::options_description step("Optimizer");
  step.add_options()(
      "optimizer", po::value(&raw.optimizer)->default_value("sgd")->value_name("NAME"),
      "sgd, adam or adamw")("lr",
                            po::value(&o.learning_rate)
                                ->default_value(o.learning_rate, number(o.learning_rate))
                                ->value_name("X"),
                            "learning rate")(
      "lr-schedule", po::value(&raw.lr_schedule)->default_value("cosine")->value_name("NAME"),
      "constant, step or cosine (to 0 at the last update)")(
      "lr-warmup", po::value(&o.warmup_updates)->default_value(o.warmup_updates)->value_name("N"),
      "updates over which the rate rises linearly at the start")(
      "lr-step-epochs", po::value(&o.step_epochs)->default_value(o.step_epochs)->value_name("N"),
      "step: every N epochs ...")("lr-step-factor",
                                  po::value(&o.step_factor)
                                      ->default_value(o.step_factor, number(o.step_factor))
                                      ->value_name("X"),
                                  "... times this")(
      "momentum",
      po::value(&o.optimizer.momentum)
          ->default_value(o.optimizer.momentum, number(o.optimizer.momentum))
          ->value_name("X"),
      "sgd: momentum")("nesterov", po::bool_switch(&o.optimizer.nesterov),
                       "sgd: Nesterov momentum")(
      "weight-decay",
      po::value(&o.optimizer.weight_decay)
          ->default_value(o.optimizer.weight_decay, number(o.optimizer.weight_decay))
          ->value_name("X"),
      "of all parameters; decoupled with adamw")(
      "beta1",
      po::value(&o.optimizer.beta1)
          ->default_value(o.optimizer.beta1, number(o.optimizer.beta1))
          ->value_name("X"),
      "adam, adamw: decay of the mean")(
      "beta2",
      po::value(&o.optimizer.beta2)
          ->default_value(o.optimizer.beta2, number(o.optimizer.beta2))
          ->value_name("X"),
      "adam, adamw: decay of the square");

  po::options_description run("Running and reporting");
  run.add_options()("dtype", po::value(&raw.dtype)->default_value("float32")->value_name("NAME"),
                    "float32 or float64 (reference maths: slow)")(
      "backend", po::value(&o.backend)->default_value(o.backend)->value_name("NAME"),
      "auto, onednn or reference")("summary", po::value(&o.summary)->value_name("FILE"),
                                   "write results to FILE (JSON)")(
      "progress", po::value(&raw.progress)->default_value("auto")->value_name("STYLE"),
      "auto, live (one line written over) or log")(
      "log-every", po::value(&o.log_every)->default_value(o.log_every)->value_name("N"),
      "log: a line every N updates")("deadline",
                                     po::value(&o.deadline_s)
                                         ->default_value(o.deadline_s, number(o.deadline_s))
                                         ->value_name("SECONDS"),
                                     "give up when a rank has waited so long for another")(
      "help", "this text");

  po::options_description all;
  all.add(what).add(how).add(step).add(run);
  return all;
}

std::vector<int> parse_list(const std::string& text, const std::string& option) {
  std::vector<int> numbers;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) {
    std::size_t used = 0;
    int number = 0;
    try {
      number = std::stoi(word, &used);
    } catch (const std::exception&) {
      used = 0;
    }
    if (used == 0 || used != word.size() || number < 1) {
      throw InputError("", option, fmt::format("'{}' is not a list of counts such as 1,2,1", text));
    }
    numbers.push_back(number);
  }
  if (numbers.empty() || text.back() == ',') {
    throw InputError("", option, fmt::format("'{}' is not a list of counts such as 1,2,1", text));
  }
  return numbers;
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
  require(o.microbatches >= 1 && o.microbatches <= plan::k_most_microbatches, "--microbatches",
          o.microbatches, "1 to 4096");
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
  require(o.deadline_s >= 1, "--deadline", o.deadline_s, "at least 1");
  if (o.optimizer.nesterov && o.optimizer.momentum == 0) {
    throw InputError("", "--nesterov", "needs --momentum above 0");
  }
  if (o.backend != "auto" && o.backend != "onednn" && o.backend != "reference") {
    throw InputError(
        "", "--backend",
        fmt::format("'{}' is not known; known are auto, onednn, reference", o.backend));
  }
  if (o.backend == "onednn" && o.dtype == tensor::DType::float64) {
    throw InputError("", "--backend", "onednn has no float64; use reference");
  }
}

void check_plan_alone(const TrainOptions& o, const po::variables_map& values) {
  if (o.plan.empty()) return;
  for (const char* option : {"stages", "replicas", "schedule", "weights", "microbatches"}) {
    if (values.count(option) != 0 && !values[option].defaulted()) {
      throw InputError("", fmt::format("--{}", option),
                       fmt::format("contradicts --plan: change it in {}", o.plan));
    }
  }
}

/// What the chosen optimizer would ignore.
void check_optimizer_alone(const TrainOptions& o, const po::variables_map& values) {
  const bool sgd = o.optimizer.kind == nn::OptimizerKind::sgd;
  const std::vector<const char*> others =
      sgd ? std::vector{"beta1", "beta2"} : std::vector{"momentum", "nesterov"};
  for (const char* option : others) {
    if (!values[option].defaulted()) {
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
  if (values.count("replicas") != 0) o.replicas = parse_list(raw.replicas, "--replicas");
  if (values.count("stages") != 0) {
    require(raw.stages >= 1, "--stages", raw.stages, "at least 1");
    o.stages = raw.stages;
  }
  if (values.count("max-updates") != 0) {
    require(raw.max_updates >= 1, "--max-updates", raw.max_updates, "at least 1");
    o.max_updates = raw.max_updates;
  }
  require(raw.seed >= 0, "--seed", raw.seed, "at least 0");
  o.seed = static_cast<std::uint64_t>(raw.seed);
  if (raw.dtype == "float64") {
    o.dtype = tensor::DType::float64;
  } else if (raw.dtype != "float32") {
    throw InputError("", "--dtype",
                     fmt::format("'{}' is not known; known are float32, float64", raw.dtype));
  }
  if (raw.progress == "live") {
    o.progress = ProgressStyle::live;
  } else if (raw.progress == "log") {
    o.progress = ProgressStyle::log;
  } else if (raw.progress != "auto") {
    throw InputError("", "--progress",
                     fmt::format("'{}' is not known; known are auto, live, log", raw.progress));
  }
}

}  // namespace

std::string train_help() {
  TrainOptions options;
  Raw raw;
  std::ostringstream text;
  text << "usage: mpirun -n RANKS dynpipe train --model FILE --data DIR [options]\n\n"
          "Trains a network as a pipeline over MPI ranks.\n"
       << describe(options, raw)
       << "\nExit codes: 0 trained, 1 the run failed, 2 wrong usage or input.\n";
  return text.str();
}

std::optional<TrainOptions> parse_train_options(const std::vector<std::string>& words) {
  TrainOptions options;
  Raw raw;
  const po::options_description all = describe(options, raw);
  const auto parsed = parse_words("train", words, all);
  if (!parsed) return std::nullopt;
  const po::variables_map& values = *parsed;
  check_plan_alone(options, values);
  translate(raw, values, options);
  check_optimizer_alone(options, values);
  check_ranges(options);
  return options;
}

}  // namespace dynpipe::app
