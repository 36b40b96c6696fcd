#include "app/simulate_options.hpp"

#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "app/option_group.hpp"
#include "app/option_parser.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

using base::InputError;

constexpr std::int64_t k_many = 1'000'000;
constexpr int k_most_ranks = 65536;

/// Values as their words stand on the command line, before they are checked.
struct Raw {
  std::string replicas;
  std::string schedule = "async", weights = "2bw";
  std::int64_t seed = 1;
};

OptionGroup task_options(SimulateOptions& o, Raw& raw) {
  OptionGroup group("What to simulate");
  option(group, "model", &o.train.model, "FILE", "model description (JSON); required");
  option(group, "profile", &o.profile, "FILE",
         "what its layers take (JSON, made by dynpipe profile)");
  option(group, "gflops", &o.gflops, "X",
         "without --profile: billions of operations a second of every rank, an assumption");
  option(group, "cluster", &o.cluster, "FILE",
         "described machine (JSON, see data/README.md; default: the profile's links, else equal "
         "ranks whose messages take nothing)");
  option(group, "ranks", &o.ranks, "N", "of the cluster the first N (default: all)");
  option(group, "batch", &o.train.batch, "N", "samples of a weight update");
  option(group, "updates", &o.updates, "N", "weight updates to simulate");
  option(group, "seed", &raw.seed, "N", "of jitter");
  option(group, "trace-out", &o.trace_out, "FILE",
         "write every step and message (JSON trace events: ui.perfetto.dev, chrome://tracing)");
  group.add_options()("help", "this text");
  return group;
}

OptionGroup plan_options(SimulateOptions& o, Raw& raw) {
  OptionGroup group("How to spread it over the ranks");
  option(group, "plan", &o.train.plan, "FILE", "plan (JSON); says all of this group");
  option(group, "stages", &o.train.stages, "N",
         "pipeline stages, cut to equal FLOPs (default: one a rank)");
  option(group, "replicas", &raw.replicas, "R,R,...",
         "ranks of each stage (default: spread evenly)");
  option(group, "schedule", &raw.schedule, "NAME", "async, zb-h1, 1f1b or gpipe");
  option(group, "weights", &raw.weights, "NAME", "versions of async: 2bw or stash");
  option(group, "microbatches", &o.train.microbatches, "M", "parts of a batch");
  option(group, "recompute", &o.train.recompute, "STAGES",
         "all, none or numbers such as 0,2: run forwards again");
  return group;
}

OptionGroup describe(SimulateOptions& o, Raw& raw) {
  OptionGroup all;
  all.add(task_options(o, raw)).add(plan_options(o, raw));
  return all;
}

template <typename Number>
void require(bool holds, const char* option, Number value, const char* rule) {
  if (!holds) throw InputError("", option, fmt::format("must be {}, is {}", rule, value));
}

void check(const SimulateOptions& o) {
  if (o.train.model.empty()) throw InputError("", "--model", "is missing");
  require(o.train.batch >= 1 && o.train.batch <= k_many, "--batch", o.train.batch, "1 to 1000000");
  require(o.updates >= 1 && o.updates <= k_many, "--updates", o.updates, "1 to 1000000");
  require(std::isfinite(o.gflops) && o.gflops > 0, "--gflops", o.gflops, "above 0");
  if (o.train.stages) require(*o.train.stages >= 1, "--stages", *o.train.stages, "at least 1");
  require(o.train.microbatches >= 1 && o.train.microbatches <= plan::k_most_microbatches,
          "--microbatches", o.train.microbatches, "1 to 4096");
  if (o.ranks)
    require(*o.ranks >= 1 && *o.ranks <= k_most_ranks, "--ranks", *o.ranks, "1 to 65536");
  if (!o.ranks && o.cluster.empty() && o.profile.empty()) {
    throw InputError("", "--ranks", "is missing: say how many there are, or --cluster FILE");
  }
}

}  // namespace

std::string simulate_help() {
  SimulateOptions options;
  Raw raw;
  std::ostringstream text;
  text
      << "usage: dynpipe simulate --model FILE (--cluster FILE | --ranks N) [options]\n\n"
         "Tells how fast a network would train: runs the instructions of all ranks on a simulated\n"
         "clock. Needs no MPI.\n"
      << describe(options, raw) << "\nExit codes: 0 simulated, 2 wrong usage or input.\n";
  return text.str();
}

std::optional<SimulateOptions> parse_simulate_options(const std::vector<std::string>& words) {
  SimulateOptions options;
  Raw raw;
  const OptionGroup all = describe(options, raw);
  const auto values = parse_words("simulate", words, all);
  if (!values) return std::nullopt;
  check_plan_alone(options.train.plan, *values);
  if (!options.profile.empty() && !(*values)["gflops"].defaulted()) {
    throw InputError("", "--gflops", "means nothing with --profile");
  }
  options.train.schedule = plan::schedule_named(raw.schedule, "", "--schedule");
  options.train.policy = plan::policy_named(raw.weights, "", "--weights");
  if (!raw.replicas.empty()) options.train.replicas = parse_counts(raw.replicas, "--replicas");
  require(raw.seed >= 0, "--seed", raw.seed, "at least 0");
  options.train.seed = static_cast<std::uint64_t>(raw.seed);
  check(options);
  return options;
}

}  // namespace dynpipe::app
