#include "app/simulate.hpp"
#include "app/profiled_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "app/simulation_trace.hpp"
#include "app/text_file.hpp"
#include "app/train_inputs.hpp"
#include "base/counted.hpp"
#include "base/errors.hpp"
#include "comm/channel.hpp"
#include "nn/layer.hpp"
#include "planner/profile_cluster.hpp"
#include "planner/workload.hpp"
#include "schedule/schedule.hpp"

namespace dynpipe::app {
namespace {

using base::counted;
using base::InputError;

/// Less than that, and nothing keeps the others from going faster but waiting.
constexpr double k_busy = 0.9;
/// They lie in memory as a whole.
constexpr double k_most_instructions = 2e8;

/// Described in a file, else by the profile's links, else equal ranks.
planner::Cluster make_cluster(const SimulateOptions& options, const model::Profile& profile) {
  if (!options.cluster.empty()) {
    return planner::parse_cluster(read_text_file(options.cluster), options.cluster);
  }
  if (!profile.links.empty()) {
    return profiled_cluster(profile, options.ranks.value_or(planner::ranks_of(profile)));
  }
  if (!options.ranks) {
    throw InputError("", "--ranks",
                     fmt::format("is missing: {} has no links that would say how many there are",
                                 options.profile));
  }
  return planner::uniform_cluster(*options.ranks, 0, std::numeric_limits<double>::infinity());
}

int ranks_of(const SimulateOptions& options, const planner::Cluster& cluster) {
  const int ranks = options.ranks.value_or(cluster.size());
  if (ranks > cluster.size()) {
    throw InputError("", "--ranks",
                     fmt::format("is {}, but {} has {}", ranks,
                                 options.cluster.empty() ? options.profile : options.cluster,
                                 counted(cluster.size(), "rank")));
  }
  return ranks;
}

/// Refuses what would not fit into memory.
void check_size(const SimulateOptions& options, const plan::Plan& plan) {
  const double instructions = 8.0 * static_cast<double>(options.updates) * plan.microbatches *
                              static_cast<double>(plan.size());
  if (instructions > k_most_instructions) {
    throw InputError(
        "", "--updates",
        fmt::format(
            "{} of {} on {} are too many to simulate: at most {}", options.updates,
            counted(plan.microbatches, "microbatch"), counted(plan.size(), "stage"),
            static_cast<std::int64_t>(k_most_instructions * static_cast<double>(options.updates) /
                                      instructions)));
  }
}

model::Profile read_profile(const SimulateOptions& options, const model::Model& model) {
  if (options.profile.empty()) return planner::profile_by_flops(model, 1e9 * options.gflops);
  return model::parse_profile(read_text_file(options.profile), options.profile, model);
}

std::string describe_source(const SimulateOptions& options, const model::Model& model,
                            const plan::Plan& plan, const planner::Cluster& cluster,
                            const model::Profile& profile) {
  std::string text =
      fmt::format("Simulated: {}, {} in {}, {}{}, {} on {}\n", model.name,
                  counted(options.train.batch, "sample"), counted(plan.microbatches, "microbatch"),
                  plan::name_of(plan.schedule),
                  plan.synchronous() ? "" : fmt::format(" ({})", plan::name_of(plan.policy)),
                  counted(plan.size(), "stage"), counted(plan.ranks(), "rank"));
  if (!options.cluster.empty()) {
    text += fmt::format("cluster: {}, {}\n", cluster.name, options.cluster);
  } else if (!profile.links.empty()) {
    text +=
        fmt::format("cluster: the links of {}, ranks that nap while they wait\n", options.profile);
  } else {
    text += "cluster: equal ranks, messages take nothing (no --cluster)\n";
  }
  text += options.profile.empty()
              ? fmt::format(
                    "steps: by FLOPs at an assumed {:g} GFLOP/s, updates take nothing (no "
                    "--profile)\n",
                    options.gflops)
              : fmt::format("steps: {}, {}\n", options.profile, profile.device);
  return text;
}

/// Mean over a stage's ranks of a share of the run's time, in percent.
template <typename Of>
double percent(const plan::Stage& stage, const planner::SimulatedRun& run, Of of) {
  double sum = 0;
  for (const int rank : stage.ranks) sum += of(run.ranks[static_cast<std::size_t>(rank)]);
  return run.end_s > 0 ? 100 * sum / (run.end_s * stage.replicas()) : 0;
}

std::string shortened(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

std::string stage_line(const model::Model& model, const plan::Plan& plan, int s,
                       const planner::SimulatedRun& run) {
  using Rank = planner::SimulatedRank;
  const plan::Stage& stage = plan.stages[static_cast<std::size_t>(s)];
  const auto layer = [&](int l) -> const std::string& {
    return model.layers[static_cast<std::size_t>(l)].spec.name;
  };
  std::string layers = layer(stage.first);
  if (stage.last > stage.first) layers += fmt::format(" .. {}", layer(stage.last));
  const double busy = percent(stage, run, [](const Rank& r) { return r.busy_s; });
  const double activation = percent(stage, run, [](const Rank& r) { return r.wait_activation_s; });
  const double gradient = percent(stage, run, [](const Rank& r) { return r.wait_gradient_s; });
  const double sum = percent(stage, run, [](const Rank& r) { return r.wait_reduction_s; });
  return fmt::format(
      "{:>5}  {:>5}  {:<26}  {:>2.0f} %  {:>8.0f} %  {:>6.0f} %  {:>2.0f} %  {:>3.0f} %\n", s,
      stage.replicas(), shortened(layers, 26), busy, activation, gradient, sum,
      std::max(0.0, 100 - busy - activation - gradient - sum));
}

struct Limit {
  double share = 0;  ///< of the run's time
  std::string what;
};

Limit busiest_rank(const plan::Plan& plan, const planner::Cluster& cluster,
                   const planner::SimulatedRun& run) {
  Limit most;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const double share = run.ranks[rank].busy_s / run.end_s;
    if (share <= most.share) continue;
    most = {share, fmt::format("rank {} ({}), stage {}, computes {:.0f} % of the time", rank,
                               cluster.ranks[rank].name, plan.stage_of(static_cast<int>(rank)),
                               100 * share)};
  }
  return most;
}

Limit fullest_link(const planner::Cluster& cluster, const planner::SimulatedRun& run) {
  Limit most;
  for (std::size_t l = 0; l < run.links.size(); ++l) {
    const auto end_name = [&](int end) {
      const auto at = static_cast<std::size_t>(end);
      return at < cluster.ranks.size() ? cluster.ranks[at].name
                                       : cluster.switches[at - cluster.ranks.size()];
    };
    const planner::ClusterLink& link = cluster.links[l];
    for (const bool back : {false, true}) {
      const double bytes = back ? run.links[l].backward_bytes : run.links[l].forward_bytes;
      const double share = bytes / (link.bytes_per_s * run.end_s);
      if (share <= most.share) continue;
      most = {share,
              fmt::format("link {}, {} {} {}, is used to {:.0f} %", link.name,
                          end_name(back ? link.to : link.from), link.full_duplex ? "to" : "and",
                          end_name(back ? link.from : link.to), 100 * share)};
    }
  }
  return most;
}

}  // namespace

std::string describe_simulation(const model::Model& model, const plan::Plan& plan,
                                const planner::Cluster& cluster, const planner::SimulatedRun& run,
                                std::int64_t batch) {
  std::string text = fmt::format("{:<47}{}\n{:<5}  {:<5}  {:<26}{}\n", "", "waits for", "stage",
                                 "ranks", "layers", "  busy  activation  gradient   sum   rest");
  for (int s = 0; s < plan.size(); ++s) text += stage_line(model, plan, s, run);
  text += "(shares of the whole run; mean over a stage's ranks)\n";
  const double period_s = run.period_s();
  const double speed = period_s > 0 ? static_cast<double>(batch) / period_s : 0;
  text += fmt::format(
      "\nSimulated: {:.4g} ms an update, {:.{}f} images/s (once the pipeline is full); {} in "
      "{:.4g} s\n",
      1e3 * period_s, speed, speed < 100 ? 2 : 0,
      counted(static_cast<std::int64_t>(run.updates_s.size()), "update"), run.end_s);
  const Limit rank = busiest_rank(plan, cluster, run);
  const Limit link = fullest_link(cluster, run);
  const Limit& first = link.share > rank.share ? link : rank;
  const Limit& second = link.share > rank.share ? rank : link;
  text += fmt::format("limit: {}{}\n", first.what,
                      first.share < k_busy ? "; else ranks wait for one another" : "");
  if (second.share > 0) text += fmt::format("then: {}\n", second.what);
  return text;
}

std::string simulate(const SimulateOptions& options) {
  const model::Model model = model::parse_model(read_text_file(options.train.model),
                                                options.train.model, nn::layer_types());
  const model::Profile profile = read_profile(options, model);
  const planner::Cluster cluster = make_cluster(options, profile);
  const int ranks = ranks_of(options, cluster);
  const std::string plan_text =
      options.train.plan.empty() ? "" : read_text_file(options.train.plan);
  const plan::Plan plan = make_plan(options.train, plan_text, model, ranks);
  check_streams(plan, options.train.plan);
  check_size(options, plan);

  const planner::Workload work = planner::workload_of(profile, plan, options.train.batch);
  const auto streams = schedule::training_streams(plan, {0, options.updates});
  const bool keep_steps = !options.trace_out.empty();
  const planner::SimulatedRun run =
      planner::simulate(plan, streams, work, cluster, {options.train.seed, keep_steps});
  std::string text = describe_source(options, model, plan, cluster, profile) + "\n" +
                     describe_simulation(model, plan, cluster, run, options.train.batch);
  if (keep_steps) {
    replace_text_file(options.trace_out, trace_events(plan, cluster, run));
    text += fmt::format("trace: {} (open it in ui.perfetto.dev)\n", options.trace_out);
  }
  return text;
}

}  // namespace dynpipe::app
