#include "support/scenario.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

#include "base/random.hpp"
#include "device/cpu/cpu_device.hpp"
#include "device/fake/fake_device.hpp"
#include "emulate/emulated_steps.hpp"

namespace dynpipe::testing {
namespace {

constexpr comm::WaitPolicy k_patience{.deadline_s = 60, .spin_s = 0, .nap_s = 10e-6};

std::unique_ptr<ops::Ops> make_ops(const Scenario& scenario) {
  return scenario.onednn ? ops::make_onednn_ops() : ops::make_reference_ops(scenario.dtype);
}

void write_images(const Samples& all, std::span<const std::uint64_t> ids, const tensor::Tensor& x) {
  const auto length = static_cast<std::size_t>(all.image.elements());
  std::size_t at = 0;
  for (std::uint64_t id : ids) {
    for (std::size_t i = 0; i < length; ++i, ++at) {
      const double value = all.pixels[id * length + i];
      if (x.dtype == tensor::DType::float64) {
        x.as<double>()[at] = value;
      } else {
        x.as<float>()[at] = static_cast<float>(value);
      }
    }
  }
}

void write_labels_of(const Samples& all, std::span<const std::uint64_t> ids,
                     const tensor::Tensor& labels) {
  std::int32_t* label = labels.as<std::int32_t>();
  for (std::uint64_t id : ids) *label++ = all.labels[id];
}

/// A rank's virtual time.
struct Emulation {
  Emulation(const Scenario& scenario, int rank)
      : run(scenario.plan, rank, scenario.machine->work, scenario.machine->cluster, scenario.seed) {
  }

  emulate::DescribedRun run;
  emulate::VirtualClock clock;
  emulate::VirtualSteps steps{run, clock};
};

}  // namespace

Samples random_samples(const base::Shape& image, std::int64_t classes, std::int64_t count,
                       std::uint64_t seed) {
  Samples samples{image, {}, {}};
  const base::Philox pixels(seed, "pixels");
  const base::Philox labels(seed, "labels");
  for (std::int64_t i = 0; i < count * image.elements(); ++i) {
    samples.pixels.push_back(pixels.normal(static_cast<std::uint64_t>(i)));
  }
  for (std::int64_t i = 0; i < count; ++i) {
    samples.labels.push_back(static_cast<std::int32_t>(
        labels.below(static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(classes))));
  }
  return samples;
}

std::int64_t Scenario::group_size(std::int64_t group) const {
  return group_sizes[static_cast<std::size_t>(group) % group_sizes.size()];
}

std::int64_t Scenario::largest_microbatch() const {
  const std::int64_t largest = *std::max_element(group_sizes.begin(), group_sizes.end());
  return (largest + plan.microbatches - 1) / plan.microbatches;
}

ScenarioFeed::ScenarioFeed(const Scenario& scenario) : scenario_(scenario) {
  const std::int64_t m = scenario.plan.microbatches;
  std::int64_t next = 0;
  for (std::int64_t g = 0; g < scenario.updates; ++g) {
    const std::int64_t n = scenario.group_size(g);
    for (std::int64_t j = 0; j < m; ++j) {
      std::vector<std::uint64_t> ids(static_cast<std::size_t>(n / m + (j < n % m ? 1 : 0)));
      for (auto& id : ids) id = static_cast<std::uint64_t>(next++ % scenario.samples.size());
      microbatches_.push_back(std::move(ids));
    }
  }
}

std::int64_t ScenarioFeed::size(std::int64_t microbatch) const {
  return static_cast<std::int64_t>(samples(microbatch).size());
}

std::int64_t ScenarioFeed::group_size(std::int64_t group) const {
  return scenario_.group_size(group);
}

std::span<const std::uint64_t> ScenarioFeed::samples(std::int64_t microbatch) const {
  return microbatches_[static_cast<std::size_t>(microbatch)];
}

void ScenarioFeed::write_input(std::int64_t microbatch, const tensor::Tensor& x) const {
  write_images(scenario_.samples, samples(microbatch), x);
}

void ScenarioFeed::write_labels(std::int64_t microbatch, const tensor::Tensor& labels) const {
  write_labels_of(scenario_.samples, samples(microbatch), labels);
}

EvaluationFeed::EvaluationFeed(const Scenario& scenario)
    : scenario_(scenario), ids_(static_cast<std::size_t>(scenario.samples.size())) {
  std::iota(ids_.begin(), ids_.end(), 0);
}

std::int64_t EvaluationFeed::microbatches() const {
  const std::int64_t group = scenario_.plan.microbatches * scenario_.largest_microbatch();
  return (scenario_.samples.size() + group - 1) / group * scenario_.plan.microbatches;
}

std::int64_t EvaluationFeed::size(std::int64_t microbatch) const {
  return static_cast<std::int64_t>(samples(microbatch).size());
}

std::span<const std::uint64_t> EvaluationFeed::samples(std::int64_t microbatch) const {
  const auto size = static_cast<std::size_t>(scenario_.largest_microbatch());
  const std::size_t begin = std::min(static_cast<std::size_t>(microbatch) * size, ids_.size());
  return std::span(ids_).subspan(begin, std::min(size, ids_.size() - begin));
}

void EvaluationFeed::write_input(std::int64_t microbatch, const tensor::Tensor& x) const {
  write_images(scenario_.samples, samples(microbatch), x);
}

void EvaluationFeed::write_labels(std::int64_t microbatch, const tensor::Tensor& labels) const {
  write_labels_of(scenario_.samples, samples(microbatch), labels);
}

RankOutcome run_rank(const Scenario& scenario, comm::Channel& channel, device::Device& device,
                     const std::function<void()>& on_failure) {
  const base::SteadyClock real_clock;
  std::optional<Emulation> emulation;
  if (scenario.machine) emulation.emplace(scenario, channel.rank());
  const base::Clock& clock = emulation ? static_cast<const base::Clock&>(emulation->clock)
                                       : static_cast<const base::Clock&>(real_clock);
  const double began_s = clock.now_s();
  const std::unique_ptr<ops::Ops> ops = make_ops(scenario);
  const ScenarioFeed feed(scenario);
  const EvaluationFeed evaluation(scenario);
  RankOutcome outcome;
  pipeline::ControlLink control(scenario.plan, channel);
  std::unique_ptr<pipeline::Worker> made;
  const auto on_update = [&](std::int64_t group) {
    if (group + 1 == scenario.snapshot_at) made->take_snapshot(*outcome.snapshot);
    if (group + 1 == scenario.stop_asked_at && channel.rank() == 0) control.ask_to_stop();
  };
  made = std::make_unique<pipeline::Worker>(pipeline::WorkerSetup{
      scenario.model, scenario.plan, device, channel, *ops, clock, scenario.optimizer,
      scenario.learning_rate, scenario.largest_microbatch(), scenario.seed,
      [&](const pipeline::GroupMetrics& metrics) {
        outcome.correct.push_back(metrics.correct);
        outcome.losses.push_back(metrics.loss_sum /
                                 static_cast<double>(scenario.group_size(metrics.group)));
      },
      scenario.times_every(),
      [&](const pipeline::TimesReport& report) { outcome.reports.push_back(report); },
      scenario.label_smoothing, scenario.compare_gradients_every,
      emulation ? &emulation->steps : nullptr, on_update,
      scenario.stop_asked_at < 0 ? nullptr : &control});
  pipeline::Worker& worker = *made;
  device::CpuDevice host;
  outcome.snapshot =
      std::make_shared<pipeline::WeightSnapshot>(worker.weights().make_snapshot(host));
  std::int64_t begin = 0;
  if (scenario.resume_from) {
    const auto& from = (*scenario.resume_from)[static_cast<std::size_t>(channel.rank())];
    worker.restore(from);
    begin = from.newest;
  } else {
    worker.load(scenario.initial, 0, "the test");
  }
  std::vector<std::int64_t> ends = scenario.drains;
  ends.push_back(scenario.updates);
  try {
    for (std::int64_t end : ends) {
      if (end <= begin) continue;
      const std::int64_t reached = worker.train({begin, end}, 0, feed);
      outcome.updates = reached;
      if (reached < end) break;
      const auto totals = worker.evaluate(evaluation.microbatches(), evaluation);
      outcome.evaluations.insert(outcome.evaluations.end(),
                                 {totals.loss_sum, totals.correct, totals.samples});
      begin = end;
    }
  } catch (...) {
    on_failure();
    throw;
  }
  outcome.times = worker.times();
  outcome.end_s = clock.now_s() - began_s;
  outcome.state = worker.state();
  outcome.comparisons = worker.gradient_comparisons();
  return outcome;
}

Outcome run_on_threads(const Scenario& scenario, comm::LoopbackOptions loopback, bool fake_device) {
  const base::SteadyClock clock;
  const auto ranks = static_cast<std::size_t>(scenario.plan.ranks());
  std::vector<RankOutcome> outcomes(ranks);
  std::vector<std::exception_ptr> failures(ranks);
  {
    comm::LoopbackHub hub(loopback);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          const std::unique_ptr<device::Device> device =
              fake_device ? std::unique_ptr<device::Device>(std::make_unique<device::FakeDevice>(
                                device::FakeDeviceOptions{.seed = loopback.seed + rank}))
                          : std::make_unique<device::CpuDevice>();
          const auto channel = hub.make_channel(static_cast<int>(rank), clock, k_patience);
          outcomes[rank] = run_rank(scenario, *channel, *device, [&] { hub.close(); });
        } catch (...) {
          failures[rank] = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  for (const auto& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  Outcome all{outcomes[0].losses, outcomes[0].correct, {}, {}, true, outcomes[0].reports};
  std::vector<pipeline::WeightSnapshot> snapshots;
  for (const RankOutcome& outcome : outcomes) {
    if (!outcome.comparisons.empty()) all.comparisons.push_back(outcome.comparisons);
  }
  all.evaluations.resize(outcomes[0].evaluations.size(), 0.0);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < all.evaluations.size(); ++i) {
      all.evaluations[i] += outcomes[rank].evaluations[i];
    }
    snapshots.push_back(std::move(*outcomes[rank].snapshot));
    all.updates.push_back(outcomes[rank].updates);
    all.times.push_back(outcomes[rank].times);
    all.ends_s.push_back(outcomes[rank].end_s);
    for (auto& [name, tensor] : outcomes[rank].state) {
      const auto [entry, fresh] = all.state.emplace(name, tensor);
      all.replicas_agree &= fresh || entry->second.values == tensor.values;
    }
  }
  all.snapshots =
      std::make_shared<const std::vector<pipeline::WeightSnapshot>>(std::move(snapshots));
  return all;
}

bool same_correct(const std::vector<double>& actual, const Outcome& recursion) {
  if (actual.size() != recursion.correct.size()) return false;
  for (std::size_t g = 0; g < actual.size(); ++g) {
    if (std::abs(actual[g] - recursion.correct[g]) > recursion.undecided[g]) return false;
  }
  return true;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  const double never = std::numeric_limits<double>::infinity();
  if (a.size() != b.size()) return never;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i]));
    if (!(difference <= largest)) largest = std::isnan(difference) ? never : difference;
  }
  return largest;
}

double largest_difference(const tensor::StateDict& a, const tensor::StateDict& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end()) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, largest_difference(tensor.values, other->second.values));
  }
  return largest;
}

tensor::StateDict same_names(const tensor::StateDict& all, const tensor::StateDict& part) {
  tensor::StateDict result;
  for (const auto& [name, tensor] : part) {
    if (const auto found = all.find(name); found != all.end()) result.insert(*found);
  }
  return result;
}

}  // namespace dynpipe::testing
