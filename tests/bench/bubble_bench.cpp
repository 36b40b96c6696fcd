// How long ranks wait under 1f1b and zb-h1, measured on the real worker, beside theory.
//
// Two set-ups, both with ranks as threads: two stages that compute (two cores needed), and four
// stages whose steps sleep for a fixed time, so that they overlap on any machine.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "device/cpu/cpu_device.hpp"
#include "nn/parameters.hpp"
#include "ops/reference/reference_ops.hpp"
#include "support/scenario.hpp"
#include "support/stream_times.hpp"

namespace dynpipe::testing {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

/// Every forward, input part and weight part of a stage of one linear layer and one ReLU takes the
/// same time, as nearly as the host can sleep.
class PacedOps final : public ops::ReferenceOps<float> {
 public:
  explicit PacedOps(Milliseconds pace) : pace_(pace) {}

  void relu(ops::Stream& stream, const ops::Tensor& x, const ops::Tensor& y) override {
    ReferenceOps::relu(stream, x, y);
    sleep(stream);
  }
  void relu_backward(ops::Stream& stream, const ops::Tensor& dy, const ops::Tensor& y,
                     const ops::Tensor& dx) override {
    ReferenceOps::relu_backward(stream, dy, y, dx);
    sleep(stream);
  }
  void linear_backward_weights(ops::Stream& stream, const ops::Tensor& dy, const ops::Tensor& x,
                               ops::Accumulate accumulate, const ops::Tensor& dw,
                               const ops::Tensor& db) override {
    ReferenceOps::linear_backward_weights(stream, dy, x, accumulate, dw, db);
    sleep(stream);
  }

 private:
  void sleep(ops::Stream& stream) const {
    device::launch(stream, [pace = pace_] { std::this_thread::sleep_for(pace); });
  }

  Milliseconds pace_;
};

using MakeOps = std::function<std::unique_ptr<ops::Ops>()>;

/// A chain of `stages` times the same layers, cut into that many stages.
struct SetUp {
  std::string name;
  std::string first;   ///< layers before all others, on the first stage: JSON, ends in a comma
  std::string layers;  ///< of one stage, JSON, "%" for the stage's number
  std::string input;
  int stages;
  std::int64_t samples;  ///< of a microbatch
  MakeOps make_ops;
};

model::Model repeated(const SetUp& set_up) {
  std::string layers = set_up.first;
  for (int s = 0; s < set_up.stages; ++s) {
    std::string part = set_up.layers;
    for (std::size_t at = 0; (at = part.find('%', at)) != std::string::npos;) {
      part.replace(at, 1, std::to_string(s));
    }
    layers += (s > 0 ? "," : "") + part;
  }
  const std::string text = fmt::format(
      R"({{"name": "bench", "input": {}, "loss": "softmax_cross_entropy", "layers": [{}]}})",
      set_up.input, layers);
  return model::parse_model(text, set_up.name, nn::layer_types());
}

/// Share of the time in which the ranks do nothing, on average; the first groups do not count.
double idle_share(const Scenario& scenario, const MakeOps& make_ops) {
  constexpr std::int64_t k_first_groups = 2;
  const base::SteadyClock clock;
  comm::LoopbackHub hub({.longest_delay_s = 0});
  const auto ranks = static_cast<std::size_t>(scenario.plan.ranks());
  std::vector<double> busy(ranks), total(ranks);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      device::CpuDevice device;
      const auto ops = make_ops();
      const auto channel = hub.make_channel(static_cast<int>(rank), clock,
                                            {.deadline_s = 60, .spin_s = 100e-6, .nap_s = 20e-6});
      const ScenarioFeed feed(scenario);
      pipeline::Worker worker({scenario.model,
                               scenario.plan,
                               device,
                               *channel,
                               *ops,
                               clock,
                               scenario.optimizer,
                               scenario.learning_rate,
                               scenario.largest_microbatch(),
                               scenario.seed,
                               {}});
      worker.load(scenario.initial, 0, "the benchmark");
      worker.train({0, k_first_groups}, 0, feed);
      const pipeline::StageTimes before = worker.times();
      worker.train({k_first_groups, scenario.updates}, 0, feed);
      busy[rank] = worker.times().busy() - before.busy();
      total[rank] = worker.times().total - before.total;
    });
  }
  for (std::thread& thread : threads) thread.join();
  double idle = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) idle += 1 - busy[rank] / total[rank];
  return idle / static_cast<double>(ranks);
}

Scenario scenario_of(const SetUp& set_up, plan::Schedule schedule, int microbatches) {
  Scenario scenario;
  scenario.model = repeated(set_up);
  const int layers = scenario.model.size() / set_up.stages;
  const int extra = scenario.model.size() % set_up.stages;
  scenario.plan = straight_plan(schedule, set_up.stages, microbatches);
  for (plan::Stage& stage : scenario.plan.stages) {
    stage.last = extra + layers * (stage.first + 1) - 1;
    stage.first = stage.first == 0 ? 0 : extra + layers * stage.first;
  }
  plan::validate(scenario.plan, scenario.model, set_up.stages, set_up.name);
  scenario.samples = random_samples(scenario.model.input, scenario.model.classes, 64, 1);
  scenario.group_sizes = {set_up.samples * microbatches};
  scenario.updates = 12;
  scenario.learning_rate.base = 0;
  scenario.initial = nn::initial_state(scenario.model.layers, 1);
  scenario.dtype = tensor::DType::float32;
  return scenario;
}

void measure(const SetUp& set_up) {
  fmt::print("\n{}\n  S   M  schedule   idle, measured   in theory (F = B = W)\n", set_up.name);
  for (const int microbatches : {set_up.stages, 2 * set_up.stages, 4 * set_up.stages}) {
    for (const auto schedule : {plan::Schedule::one_f_one_b, plan::Schedule::zb_h1}) {
      const StepCosts costs;
      const double bubble = bubble_in_theory(schedule, set_up.stages, costs);
      const double theory = bubble / (bubble + microbatches * costs.microbatch());
      const double idle = idle_share(scenario_of(set_up, schedule, microbatches), set_up.make_ops);
      fmt::print("{:>3} {:>3}  {:<9}  {:>12.1f} %  {:>12.1f} %\n", set_up.stages, microbatches,
                 plan::name_of(schedule), 100 * idle, 100 * theory);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace dynpipe::testing

int main() {
  using namespace dynpipe;
  testing::measure({"four stages of paced steps, 4 ms each", "",
                    R"({"name": "fc%", "type": "linear", "out_features": 8},
                       {"name": "relu%", "type": "relu"})",
                    "[8]", 4, 2,
                    [] { return std::make_unique<testing::PacedOps>(testing::Milliseconds(4)); }});
  std::string layers;
  for (int i = 0; i < 6; ++i) {
    layers += fmt::format(R"({}{{"name": "fc%-{}", "type": "linear", "out_features": 512}},
                             {{"name": "relu%-{}", "type": "relu"}})",
                          i > 0 ? "," : "", i, i);
  }
  // The first layer of all has nobody to send a gradient to: a small one, so that stages are equal.
  testing::measure({"two stages of six linear layers of 512 features, onednn",
                    R"({"name": "first", "type": "linear", "out_features": 512},)", layers, "[8]",
                    2, 64, [] { return ops::make_onednn_ops(); }});
}
