#include "support/delayed_recursion.hpp"

#include <algorithm>
#include <cmath>

#include "device/cpu/cpu_device.hpp"
#include "nn/chain.hpp"

namespace dynpipe::testing {
namespace {

using Values = std::vector<double>;
using tensor::Tensor;

/// Tensors of one kind (parameters, or statistics) in the model's order.
struct Named {
  std::string name;
  base::Shape shape;
  int stage;
  double momentum = 0;  ///< of a statistic
  double decay = 0;     ///< of a parameter
};

int stage_of_layer(const plan::Plan& plan, int layer) {
  int s = 0;
  while (plan.stages[static_cast<std::size_t>(s)].last < layer) ++s;
  return s;
}

Tensor view(Values& values, const base::Shape& shape) {
  return {reinterpret_cast<std::byte*>(values.data()), tensor::DType::float64,
          tensor::Layout::plain, shape};
}

std::vector<Tensor> views(std::vector<Values>& values, const std::vector<Named>& named) {
  std::vector<Tensor> result;
  for (std::size_t i = 0; i < named.size(); ++i) result.push_back(view(values[i], named[i].shape));
  return result;
}

std::vector<Values> zeros(const std::vector<Named>& named) {
  std::vector<Values> values;
  for (const Named& entry : named) {
    values.emplace_back(static_cast<std::size_t>(entry.shape.elements()), 0.0);
  }
  return values;
}

int delay_of(const plan::Plan& plan, int stage) {
  if (plan.schedule != plan::Schedule::asynchronous) return 0;
  const int s = plan.policy == plan::WeightPolicy::stash ? stage : 0;
  return static_cast<int>(std::ceil(plan.stages[static_cast<std::size_t>(s)].warmup /
                                    static_cast<double>(plan.microbatches)));
}

double decay_of(const nn::OptimizerSettings& o, model::ParameterKind kind) {
  if (kind == model::ParameterKind::norm && !o.decay_norms) return 0;
  if (kind == model::ParameterKind::bias && !o.decay_biases) return 0;
  return o.weight_decay;
}

double nadam_mu(const nn::OptimizerSettings& o, std::int64_t t) {
  return o.beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(t) * o.momentum_decay));
}

/// PyTorch's torch.optim.SGD, Adam, AdamW and NAdam for one tensor; `t` counts from 1.
void step(const nn::OptimizerSettings& o, double lr, double decay, std::int64_t t, Values& w,
          const Values& grad, Values& first, Values& second) {
  double mu_product = 1;
  for (std::int64_t i = 1; i <= t; ++i) mu_product *= nadam_mu(o, i);
  for (std::size_t i = 0; i < w.size(); ++i) {
    double g = grad[i];
    if (o.kind == nn::OptimizerKind::sgd) {
      g += decay * w[i];
      if (o.momentum != 0) {
        first[i] = o.momentum * first[i] + g;
        g = o.nesterov ? g + o.momentum * first[i] : first[i];
      }
      w[i] -= lr * g;
      continue;
    }
    if (o.kind == nn::OptimizerKind::adamw) {
      w[i] -= lr * decay * w[i];
    } else {
      g += decay * w[i];
    }
    first[i] = o.beta1 * first[i] + (1 - o.beta1) * g;
    second[i] = o.beta2 * second[i] + (1 - o.beta2) * g * g;
    const double v = second[i] / (1 - std::pow(o.beta2, static_cast<double>(t)));
    double m = first[i] / (1 - std::pow(o.beta1, static_cast<double>(t)));
    if (o.kind == nn::OptimizerKind::nadam) {
      const double next_mu = nadam_mu(o, t + 1);
      m = (1 - nadam_mu(o, t)) / (1 - mu_product) * g +
          next_mu / (1 - mu_product * next_mu) * first[i];
    }
    w[i] -= lr * m / (std::sqrt(v) + o.epsilon);
  }
}

/// A microbatch in memory of its own.
struct Batch {
  Batch(const pipeline::Feed& feed, std::int64_t k, const base::Shape& image)
      : pixels(static_cast<std::size_t>(feed.size(k) * image.elements())),
        classes(static_cast<std::size_t>(feed.size(k))),
        input(view(pixels, image.with_batch(feed.size(k)))),
        labels{reinterpret_cast<std::byte*>(classes.data()),
               tensor::DType::int32,
               tensor::Layout::plain,
               {feed.size(k)}} {
    feed.write_input(k, input);
    feed.write_labels(k, labels);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  Values pixels;
  std::vector<std::int32_t> classes;
  Tensor input, labels;
};

/// Samples of logits [N,K] whose two largest ones are equal but for rounding.
double near_ties(const Tensor& logits) {
  constexpr double k_rounding = 1e-9;
  double ties = 0;
  for (std::int64_t n = 0; n < logits.shape[0]; ++n) {
    const double* row = logits.as<double>() + n * logits.shape[1];
    std::vector<double> sorted(row, row + logits.shape[1]);
    std::sort(sorted.begin(), sorted.end());
    const double largest = sorted.back();
    if (sorted.size() > 1 && largest - sorted[sorted.size() - 2] <= k_rounding) ++ties;
  }
  return ties;
}

}  // namespace

Outcome run_delayed_recursion(const Scenario& scenario) {
  const plan::Plan& plan = scenario.plan;
  const std::int64_t m = plan.microbatches;
  std::vector<Named> parameters;
  std::vector<Named> statistics;
  for (int i = 0; i < scenario.model.size(); ++i) {
    const model::Layer& layer = scenario.model.layers[static_cast<std::size_t>(i)];
    const int s = stage_of_layer(plan, i);
    for (const auto& spec : layer.facts.parameters) {
      parameters.push_back({layer.spec.name + "." + spec.name, spec.shape, s, 0,
                            decay_of(scenario.optimizer, spec.kind)});
    }
    for (const auto& spec : layer.facts.statistics) {
      statistics.push_back({layer.spec.name + "." + spec.name, spec.shape, s, spec.momentum, 0});
    }
  }

  std::vector<std::vector<Values>> versions(1);  // [version][parameter]
  for (const Named& entry : parameters) {
    versions[0].push_back(scenario.initial.at(entry.name).values);
  }
  std::vector<Values> running;
  for (const Named& entry : statistics) running.push_back(scenario.initial.at(entry.name).values);
  std::vector<Values> first = zeros(parameters);
  std::vector<Values> second = zeros(parameters);

  device::CpuDevice device;
  const auto stream = device.make_stream("reference");
  const auto ops = ops::make_reference_ops(tensor::DType::float64);
  const nn::Chain chain(scenario.model.layers, tensor::Layout::plain, scenario.largest_microbatch(),
                        *ops, nn::layer_types());
  const device::Buffer arena = device.allocate(chain.arena_bytes());
  const device::Buffer scratch = device.allocate(chain.scratch_bytes());
  const ScenarioFeed feed(scenario);

  // The newest weights and running statistics on all samples, one after another.
  const EvaluationFeed all(scenario);
  const auto evaluate = [&](std::vector<Values>& newest) {
    const auto weights = views(newest, parameters);
    const auto running_views = views(running, statistics);
    Values sums(2, 0.0);
    for (std::int64_t k = 0; k < all.microbatches(); ++k) {
      const std::int64_t n = all.size(k);
      if (n == 0) continue;
      Batch batch(all, k, scenario.samples.image);
      const nn::Pass pass{*ops,
                          *stream,
                          false,
                          scenario.seed,
                          0,
                          all.samples(k),
                          nn::Scratch(scratch.data(), scratch.bytes()),
                          nullptr};
      chain.forward(pass, {weights, running_views}, batch.input, arena.data());
      ops->softmax_cross_entropy(*stream, 0, chain.output_in(arena.data(), n), batch.labels, 0,
                                 ops::Accumulate::add, view(sums, {2}), {});
    }
    return std::vector<double>{sums[0], sums[1], static_cast<double>(scenario.samples.size())};
  };

  Outcome outcome;
  for (std::int64_t g = 0; g < scenario.updates; ++g) {
    std::vector<Values> used;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const std::int64_t version =
          std::max<std::int64_t>(0, g - delay_of(plan, parameters[p].stage));
      used.push_back(versions[static_cast<std::size_t>(version)][p]);
    }
    const auto weights = views(used, parameters);
    const auto running_views = views(running, statistics);
    std::vector<Values> gradient = zeros(parameters);
    double loss_sum = 0;
    double correct = 0;
    double undecided = 0;
    for (std::int64_t k = g * m; k < (g + 1) * m; ++k) {
      const std::int64_t n = feed.size(k);
      if (n == 0) continue;
      Batch batch(feed, k, scenario.samples.image);
      const nn::Pass pass{*ops,
                          *stream,
                          true,
                          scenario.seed,
                          0,
                          feed.samples(k),
                          nn::Scratch(scratch.data(), scratch.bytes()),
                          nullptr};
      chain.forward(pass, {weights, running_views}, batch.input, arena.data());
      Values totals(2);
      Values dlogits(static_cast<std::size_t>(n * scenario.model.classes));
      const Tensor loss_gradient = view(dlogits, {n, scenario.model.classes});
      ops->softmax_cross_entropy(*stream, scenario.label_smoothing,
                                 chain.output_in(arena.data(), n), batch.labels,
                                 1.0 / static_cast<double>(feed.group_size(g)),
                                 ops::Accumulate::set, view(totals, {2}), loss_gradient);
      undecided += near_ties(chain.output_in(arena.data(), n));
      loss_sum += totals[0];
      correct += totals[1];
      std::vector<Values> own = zeros(parameters);
      std::vector<Values> folded = zeros(statistics);
      chain.backward(pass, {weights, running_views}, batch.input, loss_gradient, arena.data(),
                     {views(own, parameters), ops::Accumulate::set, views(folded, statistics)}, {});
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        for (std::size_t i = 0; i < own[p].size(); ++i) gradient[p][i] += own[p][i];
      }
      for (std::size_t q = 0; q < statistics.size(); ++q) {
        const double momentum = statistics[q].momentum;
        for (std::size_t i = 0; i < running[q].size(); ++i) {
          running[q][i] = (1 - momentum) * running[q][i] + momentum * folded[q][i];
        }
      }
    }
    outcome.losses.push_back(loss_sum / static_cast<double>(feed.group_size(g)));
    outcome.correct.push_back(correct);
    outcome.undecided.push_back(undecided);
    versions.push_back(versions.back());
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      step(scenario.optimizer, scenario.learning_rate.at(g), parameters[p].decay, g + 1,
           versions.back()[p], gradient[p], first[p], second[p]);
    }
    const auto& drains = scenario.drains;
    if (g + 1 == scenario.updates ||
        std::find(drains.begin(), drains.end(), g + 1) != drains.end()) {
      const std::vector<double> found = evaluate(versions.back());
      outcome.evaluations.insert(outcome.evaluations.end(), found.begin(), found.end());
    }
  }
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    outcome.state[parameters[p].name] = {parameters[p].shape, versions.back()[p]};
  }
  for (std::size_t q = 0; q < statistics.size(); ++q) {
    outcome.state[statistics[q].name] = {statistics[q].shape, running[q]};
  }
  return outcome;
}

}  // namespace dynpipe::testing
