#include "app/train_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/counted.hpp"

namespace dynpipe::app {
namespace {

using base::counted;
using nlohmann::ordered_json;

struct StageCost {
  std::int64_t flops = 0, parameters = 0, activations = 0;
};

StageCost cost_of(const model::Model& model, const plan::Stage& stage) {
  StageCost cost;
  for (int i = stage.first; i <= stage.last; ++i) {
    const model::LayerFacts& facts = model.layers[static_cast<std::size_t>(i)].facts;
    cost.flops += facts.forward_flops;
    cost.parameters += facts.parameter_elements();
    cost.activations += facts.activation_elements;
  }
  return cost;
}

std::string layer_range(const model::Model& model, const plan::Stage& stage) {
  const auto name = [&](int i) { return model.layers[static_cast<std::size_t>(i)].spec.name; };
  return stage.first == stage.last ? name(stage.first)
                                   : fmt::format("{} .. {}", name(stage.first), name(stage.last));
}

std::string owned_counts(const plan::Stage& stage) {
  std::vector<std::int64_t> counts;
  for (int r = 0; r < stage.replicas(); ++r) {
    counts.push_back(std::count(stage.owners.begin(), stage.owners.end(), r));
  }
  return fmt::format("{}", fmt::join(counts, "-"));
}

std::vector<int> ranks_without_microbatch(const plan::Plan& plan) {
  std::vector<int> idle;
  for (const plan::Stage& stage : plan.stages) {
    for (int r = 0; r < stage.replicas(); ++r) {
      const bool owns = std::count(stage.owners.begin(), stage.owners.end(), r) > 0;
      if (!owns) idle.push_back(stage.ranks[static_cast<std::size_t>(r)]);
    }
  }
  std::sort(idle.begin(), idle.end());
  return idle;
}

std::string si(double value) {
  for (const auto& [scale, suffix] :
       {std::pair{1e9, "G"}, std::pair{1e6, "M"}, std::pair{1e3, "k"}}) {
    if (value >= scale) return fmt::format("{:.2f} {}", value / scale, suffix);
  }
  return fmt::format("{:.0f} ", value);
}

ordered_json rank_json(const RankResult& r) {
  return {{"rank", r.rank},
          {"host", r.host},
          {"stage", r.stage},
          {"threads", r.threads},
          {"busy_frac", r.times.total > 0 ? r.times.busy() / r.times.total : 0.0},
          {"peak_rss_bytes", r.peak_rss_bytes},
          {"forward_s", r.times.forward},
          {"backward_s", r.times.backward},
          {"update_s", r.times.update},
          {"wait_activation_s", r.times.wait_activation},
          {"wait_gradient_s", r.times.wait_gradient},
          {"wait_reduction_s", r.times.wait_reduction},
          {"wait_send_s", r.times.wait_send},
          {"train_s", r.times.total},
          {"arrivals", r.times.arrivals},
          {"arrivals_in_time", r.times.in_time}};
}

std::string augmented(const TrainOptions& options) {
  return options.augmentation.any() ? fmt::format(", {}", options.augmentation.to_string()) : "";
}

ordered_json checkpoints_json(const CheckpointTally& checkpoints) {
  return {{"count", checkpoints.count},
          {"newest", checkpoints.newest.path},
          {"newest_update", checkpoints.newest.update},
          {"bytes", checkpoints.newest.bytes},
          {"longest_pause_s", checkpoints.longest_pause_s},
          {"longest_write_s", checkpoints.longest_write_s}};
}

std::string describe_resume(const TrainOptions& options, const TrainInputs& inputs) {
  if (!inputs.resume) {
    if (options.checkpoints.resume.empty()) return "";
    return fmt::format("resumed   {} holds no checkpoint: the run starts from the beginning\n",
                       options.checkpoints.folder);
  }
  const ResumePoint& point = *inputs.resume;
  return fmt::format("resumed   {}: after update {}, {}\n", point.path.string(), point.facts.update,
                     plan::to_json(inputs.plan, inputs.model) == point.facts.plan
                         ? "under the same plan"
                         : "under another plan (older versions of weights are left behind)");
}

}  // namespace

ordered_json config_json(const TrainOptions& o, const plan::Plan& plan,
                         const std::string& backend) {
  return {{"model", o.model},
          {"data", o.data},
          {"epochs", o.epochs},
          {"max_updates", o.max_updates ? ordered_json(*o.max_updates) : ordered_json()},
          {"batch", o.batch},
          {"microbatches", plan.microbatches},
          {"schedule", plan::name_of(plan.schedule)},
          {"weights", plan::name_of(plan.policy)},
          {"plan_file", o.plan},
          {"seed", o.seed},
          {"shuffle_window_mib", o.shuffle_window_mib},
          {"augment", o.augmentation.to_string()},
          {"optimizer", nn::name_of(o.optimizer.kind)},
          {"learning_rate", o.learning_rate},
          {"momentum", o.optimizer.momentum},
          {"nesterov", o.optimizer.nesterov},
          {"weight_decay", o.optimizer.weight_decay},
          {"beta1", o.optimizer.beta1},
          {"beta2", o.optimizer.beta2},
          {"momentum_decay", o.optimizer.momentum_decay},
          {"decay_norms", o.optimizer.decay_norms},
          {"decay_biases", o.optimizer.decay_biases},
          {"label_smoothing", o.label_smoothing},
          {"lr_schedule", nn::name_of(o.learning_rate_kind)},
          {"lr_warmup", o.warmup_updates},
          {"lr_step_epochs", o.step_epochs},
          {"lr_step_factor", o.step_factor},
          {"dtype", tensor::name_of(o.dtype)},
          {"backend", backend},
          {"emulate", o.emulate},
          {"clock",
           o.emulate.empty() || o.emulation_mode == EmulationMode::paced ? "real" : "virtual"}};
}

std::string describe_start(const TrainOptions& options, const TrainInputs& inputs,
                           const std::string& backend) {
  const model::Model& model = inputs.model;
  const plan::Plan& plan = inputs.plan;
  StageCost all;
  for (const plan::Stage& stage : plan.stages) {
    const StageCost cost = cost_of(model, stage);
    all.flops += cost.flops;
    all.parameters += cost.parameters;
  }
  std::string text = describe_resume(options, inputs);
  text += fmt::format(
      "model     {}: {} layers, {} parameters, {}FLOP forward a sample\n"
      "data      {}: {} training and {} test samples of {}{}\n"
      "schedule  {}{}, batch {} in {}, {}, {} {}\n\n"
      "stage  ranks        shares    W  delay  parameters   FLOPs  layers\n",
      model.name, model.size(), si(static_cast<double>(all.parameters)),
      si(static_cast<double>(all.flops)), options.data, inputs.extent.train, inputs.extent.test,
      inputs.extent.image.to_string(), augmented(options), plan::name_of(plan.schedule),
      plan.synchronous() ? "" : fmt::format(" ({})", plan::name_of(plan.policy)), options.batch,
      counted(plan.microbatches, "microbatch"), counted(plan.ranks(), "rank"), backend,
      tensor::name_of(options.dtype));
  for (int s = 0; s < plan.size(); ++s) {
    const plan::Stage& stage = plan.stages[static_cast<std::size_t>(s)];
    const StageCost cost = cost_of(model, stage);
    text += fmt::format("{:>5}  {:<11}  {:<8}  {:>2}  {:>5}  {:>10}  {:>4.0f} %  {}\n", s,
                        fmt::format("{}", fmt::join(stage.ranks, ",")), owned_counts(stage),
                        stage.warmup, plan.delay(s), si(static_cast<double>(cost.parameters)),
                        100.0 * static_cast<double>(cost.flops) /
                            static_cast<double>(std::max<std::int64_t>(all.flops, 1)),
                        layer_range(model, stage) + (stage.recompute ? " (recomputed)" : ""));
  }
  return text;
}

std::vector<std::string> plan_warnings(const TrainOptions& options, const TrainInputs& inputs) {
  const plan::Plan& plan = inputs.plan;
  std::vector<std::string> warnings;
  if (plan.microbatches < plan.size()) {
    warnings.push_back(fmt::format(
        "{} {} fewer than {}: {}", counted(plan.microbatches, "microbatch"),
        plan.microbatches == 1 ? "is" : "are", counted(plan.size(), "stage"),
        plan.synchronous()
            ? "most stages wait most of the time"
            : fmt::format("weights are up to {} old", counted(plan.delay(0), "update"))));
  }
  if (options.batch < plan.microbatches) {
    warnings.push_back(fmt::format("a batch of {} leaves some of {} microbatches empty",
                                   options.batch, plan.microbatches));
  }
  const std::vector<int> idle = ranks_without_microbatch(plan);
  if (!idle.empty()) {
    warnings.push_back(idle.size() == 1
                           ? fmt::format("rank {} owns no microbatch and only follows", idle[0])
                           : fmt::format("{} ranks own no microbatch and only follow: {}",
                                         idle.size(), fmt::join(idle, ", ")));
  }
  return warnings;
}

std::string describe_result(const TrainResult& result, const plan::Plan& plan, bool virtual_time) {
  const EpochResult& last = result.epochs.back();
  const char* const kind = virtual_time ? "virtual " : "";
  std::string text = fmt::format(
      "\ntest accuracy {:.2f} %   {:.0f} samples/{}s   {:.2f} {}ms an update (90 % under {:.2f} "
      "{}ms)\n\n"
      "                                     ------ waiting for ------  messages\n"
      "stage  rank  host             busy   input  grad   sum   send    in time  peak memory\n",
      100 * last.test_accuracy, result.samples_per_s, kind, 1e3 * result.updates.median_s, kind,
      1e3 * result.updates.p90_s, kind);
  for (int s = 0; s < plan.size(); ++s) {
    for (int rank : plan.stages[static_cast<std::size_t>(s)].ranks) {
      const RankResult& r = result.ranks[static_cast<std::size_t>(rank)];
      const auto share = [&](double seconds) {
        return 100 * seconds / std::max(r.times.total, 1e-9);
      };
      text += fmt::format(
          "{:>5}  {:>4}  {:<15} {:>4.0f} %  {:>4.0f} % {:>3.0f} % {:>3.0f} %  {:>3.0f} %  {:>9}  "
          "{:>8.0f} MB\n",
          s, rank, r.host.substr(0, 15), share(r.times.busy()), share(r.times.wait_activation),
          share(r.times.wait_gradient), share(r.times.wait_reduction), share(r.times.wait_send),
          r.times.arrivals > 0 && !virtual_time
              ? fmt::format("{:.0f} %", 100 * r.times.in_time_share())
              : "-",
          static_cast<double>(r.peak_rss_bytes) / 1e6);
    }
  }
  return text;
}

std::string summary_json(const TrainOptions& options, const TrainInputs& inputs,
                         const TrainResult& result, const std::string& backend) {
  ordered_json ranks = ordered_json::array();
  for (const RankResult& r : result.ranks) ranks.push_back(rank_json(r));
  const ordered_json plan = ordered_json::parse(plan::to_json(inputs.plan, inputs.model));
  ordered_json summary = {{"config", config_json(options, inputs.plan, backend)},
                          {"plans", ordered_json::array({{{"update", 0}, {"plan", plan}}})},
                          {"epochs", epochs_json(result.epochs)},
                          {"updates",
                           {{"median_s", result.updates.median_s},
                            {"p90_s", result.updates.p90_s},
                            {"count", result.updates.count}}},
                          {"samples_per_s", result.samples_per_s},
                          {"migrations", ordered_json::array()},
                          {"ranks", ranks},
                          {"status", name_of(result.status)}};
  if (inputs.resume) {
    summary["resumed"] = {{"from", inputs.resume->path.string()},
                          {"update", inputs.resume->facts.update}};
  }
  if (result.checkpoints.count > 0) summary["checkpoints"] = checkpoints_json(result.checkpoints);
  if (result.staleness.comparisons > 0) summary.update(staleness_json(result.staleness));
  if (!result.reason.empty()) summary["reason"] = result.reason;
  return summary.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string pack(const RankResult& result) {
  return rank_json(result).dump();
}

RankResult unpack_rank_result(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  RankResult r;
  r.rank = json["rank"];
  r.stage = json["stage"];
  r.host = json["host"];
  r.threads = json["threads"];
  r.peak_rss_bytes = json["peak_rss_bytes"];
  r.times.forward = json["forward_s"];
  r.times.backward = json["backward_s"];
  r.times.update = json["update_s"];
  r.times.wait_activation = json["wait_activation_s"];
  r.times.wait_gradient = json["wait_gradient_s"];
  r.times.wait_reduction = json["wait_reduction_s"];
  r.times.wait_send = json["wait_send_s"];
  r.times.arrivals = json["arrivals"];
  r.times.in_time = json["arrivals_in_time"];
  r.times.total = json["train_s"];
  return r;
}

}  // namespace dynpipe::app
