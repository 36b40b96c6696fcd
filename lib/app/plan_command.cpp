#include "app/plan_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "app/profiled_cluster.hpp"
#include "app/staleness.hpp"
#include "app/text_file.hpp"
#include "app/train_inputs.hpp"
#include "base/counted.hpp"
#include "base/errors.hpp"
#include "nn/layer.hpp"
#include "planner/workload.hpp"

namespace dynpipe::app {
namespace {

using base::counted;
using base::InputError;
using planner::PlanChoice;
using planner::SearchRequest;

/// Nobody waits for it but a person.
constexpr int k_effort = 8;
constexpr double k_mebibyte = 1 << 20;

/// All that planning reads, checked.
struct PlanInputs {
  model::Model model;
  model::Profile profile;
  planner::Cluster cluster;
  SearchRequest request;
};

model::Profile read_profile(const PlanOptions& options, const model::Model& model) {
  if (options.profile.empty()) return planner::profile_by_flops(model, 1e9 * options.gflops);
  return model::parse_profile(read_text_file(options.profile), options.profile, model);
}

/// Powers of two around the number of ranks that leave every microbatch its samples.
std::vector<int> sensible_microbatches(const PlanOptions& options, const model::Model& model,
                                       int ranks) {
  std::int64_t least_samples = 1;
  for (const model::Layer& layer : model.layers) {
    least_samples = std::max(least_samples, layer.facts.least_samples);
  }
  std::vector<int> counts;
  const std::int64_t most =
      std::min<std::int64_t>(options.batch / least_samples, std::max(8, 4 * ranks));
  for (int m = 1; m <= std::min<std::int64_t>(most, plan::k_most_microbatches); m *= 2) {
    if (8 * m >= ranks) counts.push_back(m);
  }
  if (counts.empty()) counts.push_back(1);
  return counts;
}

std::vector<int> pins_of(const PlanOptions& options, const model::Model& model) {
  std::vector<int> pins;
  if (options.pins.empty()) return pins;
  pins.assign(model.layers.size(), -1);
  for (const auto& [layer, stage] : options.pins) {
    const int position = model.find(layer);
    if (position < 0) {
      throw InputError("", "--pin", fmt::format("'{}' is not a layer of {}", layer, model.file));
    }
    pins[static_cast<std::size_t>(position)] = stage;
  }
  return pins;
}

PlanInputs read_inputs(const PlanOptions& options) {
  PlanInputs inputs;
  inputs.model =
      model::parse_model(read_text_file(options.model), options.model, nn::layer_types());
  inputs.profile = read_profile(options, inputs.model);
  inputs.cluster = options.cluster.empty()
                       ? profiled_cluster(inputs.profile, *options.ranks)
                       : planner::parse_cluster(read_text_file(options.cluster), options.cluster);
  const int ranks = options.ranks.value_or(inputs.cluster.size());
  if (ranks > inputs.cluster.size()) {
    throw InputError("", "--ranks",
                     fmt::format("is {}, but {} has {}", ranks, options.cluster,
                                 counted(inputs.cluster.size(), "rank")));
  }
  SearchRequest& request = inputs.request;
  request.batch = options.batch;
  request.ranks = ranks;
  request.microbatches = options.microbatches.empty()
                             ? sensible_microbatches(options, inputs.model, ranks)
                             : options.microbatches;
  request.schedules = options.schedules;
  request.policies = options.policies;
  request.kappa = options.kappa_from.empty() ? options.kappa.value_or(planner::k_assumed_kappa)
                                             : kappa_of_run(options.kappa_from);
  if (options.memory_bytes > 0) request.memory_bytes = options.memory_bytes;
  request.pins = pins_of(options, inputs.model);
  request.stages = options.stages.value_or(0);
  request.replicas = !options.no_replicas;
  request.recompute = options.recompute;
  request.reorder = options.reorder;
  request.effort = k_effort;
  for (const model::Layer& layer : inputs.model.layers) {
    request.layer_flops.push_back(static_cast<double>(layer.facts.forward_flops));
  }
  return inputs;
}

std::string describe_source(const PlanOptions& options, const PlanInputs& inputs) {
  std::string text =
      fmt::format("Plan for {}, {}, on {}\n", inputs.model.name, counted(options.batch, "sample"),
                  counted(inputs.request.ranks, "rank"));
  text += options.profile.empty()
              ? fmt::format(
                    "steps: by FLOPs at an assumed {:g} GFLOP/s, updates take nothing (no "
                    "--profile)\n",
                    options.gflops)
              : fmt::format("steps: {}, {}\n", options.profile, inputs.profile.device);
  if (!options.cluster.empty()) {
    text += fmt::format("cluster: {}, {}\n", inputs.cluster.name, options.cluster);
  } else if (inputs.profile.links.empty()) {
    text += "cluster: equal ranks, messages take nothing (no --cluster)\n";
  } else {
    text += fmt::format("cluster: ranks and links as in {}\n", options.profile);
  }
  const std::string source = options.kappa ? ""
                             : options.kappa_from.empty()
                                 ? ", an assumption (no --kappa)"
                                 : fmt::format(", measured: {}", options.kappa_from);
  return text + fmt::format("cost of delay: kappa {:g}{}\n", inputs.request.kappa, source);
}

std::string numbered(std::vector<int> numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += text.empty() ? "" : ",";
    text += end - i > 1 ? fmt::format("{}-{}", numbers[i], numbers[end - 1])
                        : fmt::format("{}", numbers[i]);
    i = end;
  }
  return text;
}

std::string method(const plan::Plan& plan) {
  return fmt::format("{}{}, {}", plan::name_of(plan.schedule),
                     plan.synchronous() ? "" : fmt::format(" {}", plan::name_of(plan.policy)),
                     counted(plan.microbatches, "microbatch"));
}

/// "1-2-1": replicas by stage; longer ones in short.
std::string shape(const plan::Plan& plan) {
  if (plan.size() > 8) return fmt::format("{} stages", plan.size());
  std::string text;
  for (const plan::Stage& stage : plan.stages) {
    text += fmt::format("{}{}", text.empty() ? "" : "-", stage.replicas());
  }
  return text;
}

PlanChoice baseline_choice(planner::Baseline baseline, const PlanInputs& inputs, int microbatches) {
  const auto plan =
      planner::baseline_plan(baseline, inputs.profile, inputs.cluster,
                             {inputs.request.batch, inputs.request.ranks, microbatches,
                              inputs.request.policies.front(), inputs.request.layer_flops});
  if (!plan) {
    throw InputError("", "--algorithm",
                     fmt::format("{} has no plan for this", planner::name_of(baseline)));
  }
  return planner::judged(*plan, inputs.profile, inputs.cluster, inputs.request);
}

double fullest_bytes(const PlanChoice& choice) {
  double most = 0;
  for (const auto& stage : choice.stages) most = std::max(most, stage.memory_bytes);
  return most;
}

/// What a baseline plans with the best of the microbatch counts there are.
PlanChoice best_baseline(planner::Baseline baseline, const PlanInputs& inputs) {
  std::optional<PlanChoice> best;
  for (const int m : inputs.request.microbatches) {
    PlanChoice choice = baseline_choice(baseline, inputs, m);
    if (!best || choice.objective < best->objective) best = std::move(choice);
  }
  return *best;
}

std::string compare(const PlanInputs& inputs, const PlanChoice& own) {
  std::string text =
      "\nalgorithm                   update ms   delay  objective ms  to dynpipe      MiB  plan\n";
  const auto row = [&](std::string_view name, const PlanChoice& choice) {
    const double memory = fullest_bytes(choice);
    text += fmt::format("{:<26}  {:>9.4g}  {:>6.2f}  {:>12.4g}  {:>8.2f} x  {:>7.0f}  {}, {}{}\n",
                        name, 1e3 * choice.period_s, choice.delay, 1e3 * choice.objective,
                        choice.objective / own.objective, memory / k_mebibyte, method(choice.plan),
                        shape(choice.plan),
                        memory > inputs.request.memory_bytes ? " (does not fit)" : "");
  };
  row("dynpipe", own);
  const auto ablation = [&](std::string_view name, bool SearchRequest::*what) {
    SearchRequest without = inputs.request;
    without.*what = false;
    without.baselines = false;
    row(name, planner::search(inputs.profile, inputs.cluster, without));
  };
  ablation("- blind to delay", &SearchRequest::staleness);
  ablation("- blind to communication", &SearchRequest::communication);
  ablation("- least warm-ups", &SearchRequest::spare_warmup);
  for (const planner::Baseline baseline : planner::k_baselines) {
    row(planner::name_of(baseline), best_baseline(baseline, inputs));
  }
  return text +
         "delay in updates; MiB of the fullest rank; the others with the microbatches that "
         "suit them best\n";
}

}  // namespace

std::string describe_choice(const PlanChoice& choice, const model::Profile& profile,
                            std::int64_t batch, double kappa) {
  const plan::Plan& plan = choice.plan;
  std::string text = fmt::format(
      "\n{}{}: {:.4g} ms an update, {:.4g} samples/s ({})\n", method(plan),
      choice.baseline ? fmt::format(" (the plan of {})", planner::name_of(*choice.baseline)) : "",
      1e3 * choice.period_s, static_cast<double>(batch) / choice.period_s,
      choice.simulated ? "simulated" : "by formula: too large to simulate");
  text += fmt::format("delay {:.2f} updates, so {:.4g} ms counted at kappa {:g}\n", choice.delay,
                      1e3 * choice.objective, kappa);
  text +=
      "\n                                                    ms a microbatch\n"
      "stage  layers                  ranks       W  delay  compute  transfer  not hidden      "
      "MiB\n";
  for (int s = 0; s < plan.size(); ++s) {
    const plan::Stage& stage = plan.stages[static_cast<std::size_t>(s)];
    const planner::StageReport& report = choice.stages[static_cast<std::size_t>(s)];
    const auto name = [&](int layer) -> const std::string& {
      return profile.layers[static_cast<std::size_t>(layer)].name;
    };
    std::string layers = name(stage.first);
    if (stage.last > stage.first) layers += " .. " + name(stage.last);
    text += fmt::format(
        "{:>5}  {:<22.22}  {:<8.8}  {:>3}  {:>5}  {:>7.4g}  {:>8}  {:>10}  {:>7.1f}{}\n", s, layers,
        numbered(stage.ranks), stage.warmup, report.delay, 1e3 * report.compute_s,
        s + 1 < plan.size() ? fmt::format("{:.3g}", 1e3 * report.transfer_s) : "-",
        s + 1 < plan.size() ? fmt::format("{:.3g}", 1e3 * report.exposed_s) : "-",
        report.memory_bytes / k_mebibyte, stage.recompute ? "  recomputes" : "");
  }
  text += fmt::format(
      "\nbound: {:.4g} ms an update (all work over all ranks, or the largest layer); "
      "this is {:.1f} % above\n",
      1e3 * choice.bound_s, 100 * (choice.period_s / choice.bound_s - 1));
  return text + fmt::format("limit: {}\n", choice.limit);
}

std::string make_and_describe_plan(const PlanOptions& options) {
  const PlanInputs inputs = read_inputs(options);
  const SearchRequest& request = inputs.request;
  const PlanChoice choice = options.algorithm
                                ? best_baseline(*options.algorithm, inputs)
                                : planner::search(inputs.profile, inputs.cluster, request);
  plan::validate(choice.plan, inputs.model, request.ranks, "");
  if (request.ranks <= 256) check_streams(choice.plan, "");
  std::string text = describe_source(options, inputs) +
                     describe_choice(choice, inputs.profile, options.batch, request.kappa);
  if (!options.algorithm) {
    if (const auto fewer =
            planner::better_with_fewer(choice, inputs.profile, inputs.cluster, request)) {
      text += fmt::format("fewer ranks: the first {} alone would do better, by about {:.0f} %\n",
                          fewer->ranks, 100 * fewer->gain);
    }
  }
  if (options.compare) {
    text +=
        compare(inputs, options.algorithm ? planner::search(inputs.profile, inputs.cluster, request)
                                          : choice);
  }
  if (!options.out.empty()) {
    replace_text_file(options.out, plan::to_json(choice.plan, inputs.model));
    text += fmt::format("plan: {}\n", options.out);
  }
  return text;
}

}  // namespace dynpipe::app
