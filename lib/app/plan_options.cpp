#include "app/plan_options.hpp"

#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "app/option_group.hpp"
#include "app/option_parser.hpp"
#include "app/train_options.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

using base::InputError;

constexpr std::int64_t k_many = 1'000'000;
constexpr int k_most_ranks = 65536;

/// Values as their words stand on the command line, before they are checked.
struct Raw {
  std::string microbatches = "auto", schedule = "auto", weights = "2bw", algorithm = "dynpipe";
  std::string memory_limit, pins, recompute = "auto";
};

OptionGroup task_options(PlanOptions& o, Raw& raw) {
  OptionGroup group("What to plan for");
  option(group, "model", &o.model, "FILE", "model description (JSON); required");
  option(group, "profile", &o.profile, "FILE",
         "what its layers take (JSON, made by dynpipe profile)");
  option(group, "gflops", &o.gflops, "X",
         "without --profile: billions of operations a second of every rank, an assumption");
  option(group, "cluster", &o.cluster, "FILE",
         "described machine (JSON, see data/README.md; default: equal ranks, links as profiled or, "
         "without a profile of them, free)");
  option(group, "ranks", &o.ranks, "N", "of the cluster the first N (default: all)");
  option(group, "batch", &o.batch, "N", "samples of a weight update");
  option(group, "memory-limit", &raw.memory_limit, "SIZE",
         "of every rank, such as 800MiB or 1.5GiB (default: as the cluster says)");
  option(group, "kappa", &o.kappa, "X",
         "cost of delay: what is minimised is period x (1 + kappa x delay in updates); the default "
         "is an assumption of 0.05");
  option(group, "kappa-from", &o.kappa_from, "FILE",
         "take kappa from the summary or the trace of a run with --measure-kappa");
  return group;
}

OptionGroup freedom_options(PlanOptions& o, Raw& raw) {
  OptionGroup group("What it may choose from");
  option(group, "microbatches", &raw.microbatches, "M,...", "parts of a batch: auto or a list");
  option(group, "schedule", &raw.schedule, "NAME", "auto (all), async, zb-h1, 1f1b or gpipe");
  option(group, "weights", &raw.weights, "NAME", "versions of async: 2bw, stash or auto (both)");
  option(group, "recompute", &raw.recompute, "NAME",
         "auto (stages that do not fit the memory otherwise) or none");
  option(group, "fix-stages", &o.stages, "N", "so many pipeline stages");
  option(group, "pin", &raw.pins, "LAYER:STAGE,...",
         "layers and the stages that they have to be in");
  flag(group, "no-replicas", &o.no_replicas, "one rank a stage");
  flag(group, "reorder", &o.reorder, "ranks may also follow one another by their speed");
  option(group, "algorithm", &raw.algorithm, "NAME",
         "dynpipe, or to compare with: uniform, flops, pipedream, gpipe, dynpipe-authors, data");
  return group;
}

OptionGroup result_options(PlanOptions& o) {
  OptionGroup group("What to tell");
  option(group, "out", &o.out, "FILE", "write the plan, for train --plan (JSON)");
  flag(group, "compare", &o.compare,
       "a table of all algorithms, and of dynpipe's with something left out");
  group.add_options()("help", "this text");
  return group;
}

OptionGroup describe(PlanOptions& o, Raw& raw) {
  OptionGroup all;
  all.add(task_options(o, raw)).add(freedom_options(o, raw)).add(result_options(o));
  return all;
}

template <typename Number>
void require(bool holds, const char* option, Number value, const char* rule) {
  if (!holds) throw InputError("", option, fmt::format("must be {}, is {}", rule, value));
}

std::vector<std::pair<std::string, int>> parse_pins(const std::string& text) {
  std::vector<std::pair<std::string, int>> pins;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) {
    const std::size_t colon = word.rfind(':');
    const bool number = colon != std::string::npos && colon > 0 && colon + 1 < word.size() &&
                        word.size() - colon <= 7 &&
                        word.find_first_not_of("0123456789", colon + 1) == std::string::npos;
    if (!number) {
      throw InputError("", "--pin",
                       fmt::format("'{}' is not a layer and its stage, such as conv1:0", word));
    }
    pins.emplace_back(word.substr(0, colon), std::stoi(word.substr(colon + 1)));
  }
  return pins;
}

void check(const PlanOptions& o) {
  if (o.model.empty()) throw InputError("", "--model", "is missing");
  require(o.batch >= 1 && o.batch <= k_many, "--batch", o.batch, "1 to 1000000");
  require(std::isfinite(o.gflops) && o.gflops > 0, "--gflops", o.gflops, "above 0");
  if (o.kappa) {
    require(std::isfinite(*o.kappa) && *o.kappa >= 0, "--kappa", *o.kappa, "at least 0");
  }
  if (o.kappa && !o.kappa_from.empty()) {
    throw InputError("", "--kappa", "contradicts --kappa-from: give one of them");
  }
  if (o.stages) require(*o.stages >= 1, "--fix-stages", *o.stages, "at least 1");
  if (o.ranks) {
    require(*o.ranks >= 1 && *o.ranks <= k_most_ranks, "--ranks", *o.ranks, "1 to 65536");
  } else if (o.cluster.empty()) {
    throw InputError("", "--ranks", "is missing: say how many there are, or --cluster FILE");
  }
  for (const int m : o.microbatches) {
    require(m <= plan::k_most_microbatches && m <= o.batch, "--microbatches", m,
            "at most the batch, and 4096");
  }
}

}  // namespace

double parse_bytes(const std::string& text, const std::string& option) {
  constexpr std::pair<std::string_view, double> k_units[] = {
      {"KiB", 1024.0}, {"MiB", 1024.0 * 1024}, {"GiB", 1024.0 * 1024 * 1024}};
  for (const auto& [unit, bytes] : k_units) {
    if (text.size() <= unit.size() || !text.ends_with(unit)) continue;
    const std::string number = text.substr(0, text.size() - unit.size());
    std::istringstream stream(number);
    double value = 0;
    if (number.find_first_not_of("0123456789.") == std::string::npos && stream >> value &&
        stream.eof() && value > 0) {
      return value * bytes;
    }
  }
  throw InputError("", option, fmt::format("'{}' is not a size such as 800MiB or 1.5GiB", text));
}

std::string plan_help() {
  PlanOptions options;
  Raw raw;
  std::ostringstream text;
  text << "usage: dynpipe plan --model FILE (--cluster FILE | --ranks N) [options]\n\n"
          "Finds the best plan: stages, their layers and ranks, warm-ups, microbatches, schedule.\n"
          "Says why it takes as long as it will. Needs no MPI.\n"
       << describe(options, raw) << "\nExit codes: 0 planned, 2 wrong usage or input.\n";
  return text.str();
}

std::optional<PlanOptions> parse_plan_options(const std::vector<std::string>& words) {
  PlanOptions options;
  Raw raw;
  const auto values = parse_words("plan", words, describe(options, raw));
  if (!values) return std::nullopt;
  if (!options.profile.empty() && !(*values)["gflops"].defaulted()) {
    throw InputError("", "--gflops", "means nothing with --profile");
  }
  if (raw.microbatches != "auto") {
    options.microbatches = parse_counts(raw.microbatches, "--microbatches");
  }
  using enum plan::Schedule;
  options.schedules = {asynchronous, zb_h1, one_f_one_b, gpipe};
  if (raw.schedule != "auto") {
    options.schedules = {plan::schedule_named(raw.schedule, "", "--schedule")};
  }
  options.policies = {plan::WeightPolicy::double_buffer, plan::WeightPolicy::stash};
  if (raw.weights != "auto") {
    options.policies = {plan::policy_named(raw.weights, "", "--weights")};
  }
  if (!raw.memory_limit.empty()) {
    options.memory_bytes = parse_bytes(raw.memory_limit, "--memory-limit");
  }
  if (raw.recompute != "auto" && raw.recompute != "none") {
    throw InputError("", "--recompute",
                     fmt::format("'{}' is not known; known are auto, none", raw.recompute));
  }
  options.recompute = raw.recompute == "auto";
  options.pins = parse_pins(raw.pins);
  if (raw.algorithm != "dynpipe") {
    options.algorithm = planner::baseline_named(raw.algorithm);
    if (!options.algorithm) {
      throw InputError("", "--algorithm",
                       fmt::format("'{}' is not known; known are dynpipe, uniform, flops, "
                                   "pipedream, gpipe, dynpipe-authors, data",
                                   raw.algorithm));
    }
  }
  check(options);
  return options;
}

}  // namespace dynpipe::app
