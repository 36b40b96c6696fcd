// Simulated against physical times of random plans and schedules on two ranks, profile and runs in
// alternation: a profile, the run, the run again, another profile.
//
// mpirun -n 2 prediction_bench MODEL DATA BATCH PLANS SEED
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "app/backend.hpp"
#include "app/image_feed.hpp"
#include "app/measured_profile.hpp"
#include "app/profiled_cluster.hpp"
#include "app/train_inputs.hpp"
#include "base/random.hpp"
#include "comm/mpi/mpi.hpp"
#include "device/cpu/cpu_device.hpp"
#include "nn/parameters.hpp"
#include "pipeline/worker.hpp"
#include "planner/workload.hpp"

namespace dynpipe::bench {
namespace {

using plan::Schedule;

constexpr std::int64_t k_updates = 30;
constexpr double k_profile_s = 1.5;

/// Plans of two ranks that `validate` accepts: any cut, schedule and policy, W from the least to
/// far more, some with recomputation, some of one stage with two replicas.
plan::Plan random_plan(const model::Model& model, std::uint64_t seed) {
  const base::Philox random(seed, "plan");
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint64_t n) { return static_cast<int>(random.below(drawn++, n)); };
  plan::Plan plan;
  const std::array schedules{Schedule::gpipe, Schedule::one_f_one_b, Schedule::zb_h1,
                             Schedule::asynchronous, Schedule::asynchronous};
  plan.schedule = schedules[static_cast<std::size_t>(below(schedules.size()))];
  plan.policy = below(2) == 0 ? plan::WeightPolicy::stash : plan::WeightPolicy::double_buffer;
  plan.microbatches = 1 << (1 + below(3));
  const int layers = model.size();
  if (below(6) == 0) {
    plan::Stage both;
    both.last = layers - 1;
    both.ranks = {0, 1};
    both.owners = plan::spread_owners({1, 1}, plan.microbatches);
    plan.stages = {both};
  } else {
    const int cut = layers / 4 + below(static_cast<std::uint64_t>(layers / 2));
    for (const auto& [first, last, rank] :
         {std::tuple{0, cut, 0}, std::tuple{cut + 1, layers - 1, 1}}) {
      plan::Stage stage;
      stage.first = first;
      stage.last = last;
      stage.ranks = {rank};
      stage.owners.assign(static_cast<std::size_t>(plan.microbatches), 0);
      stage.recompute = below(5) == 0;
      plan.stages.push_back(stage);
    }
  }
  const std::vector<int> least = plan::default_warmups(plan.stages);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const int more = plan.schedule == Schedule::asynchronous && s == 0 ? below(4) : 0;
    plan.stages[s].warmup = least[s] + more;
  }
  plan::validate(plan, model, 2, "the benchmark");
  return plan;
}

/// What the two ranks share from plan to plan.
class Bench {
 public:
  Bench(const app::TrainOptions& options, comm::World& world)
      : options_(options),
        world_(world),
        inputs_(app::read_train_inputs(options, world)),
        ops_(app::make_ops(options, 1)),
        channel_(comm::make_mpi_channel(world, clock_, app::wait_policy(60, true))) {}

  const model::Model& model() const { return inputs_.model; }

  /// Seconds of k_updates, filling and draining the pipeline among them: of the slowest rank.
  double run(const plan::Plan& plan) {
    data::SampleOrder order(inputs_.extent.train, options_.batch, plan.microbatches, options_.seed,
                            inputs_.extent.shuffle);
    order.prepare(0);
    const app::TrainingFeed feed(order, inputs_.train);
    device::CpuDevice device;
    pipeline::Worker worker({inputs_.model,
                             plan,
                             device,
                             *channel_,
                             *ops_,
                             clock_,
                             options_.optimizer,
                             {.base = 1e-4},
                             largest(plan),
                             1,
                             {}});
    const auto s = static_cast<std::size_t>(plan.stage_of(world_.rank()));
    worker.load(nn::initial_state(plan::layers_of(inputs_.model, plan.stages[s]), 1), 0, "");
    constexpr std::int64_t k_first = 5;  // caches, generated code, pages
    worker.train({0, k_first}, 0, feed);
    world_.barrier();
    const double began_s = clock_.now_s();
    worker.train({k_first, k_first + k_updates}, 0, feed);
    return slowest(clock_.now_s() - began_s);
  }

  model::Profile profile(const plan::Plan& plan) {
    std::vector<std::int64_t> sizes{options_.batch / plan.microbatches};
    if (largest(plan) > sizes[0]) sizes.push_back(largest(plan));
    const auto write_input = [this](const tensor::Tensor& x) {
      std::vector<std::uint64_t> samples(static_cast<std::size_t>(x.shape[0]));
      for (auto& sample : samples) {
        sample = images_drawn_ = (images_drawn_ * 48271) % 2147483647;
        sample %= static_cast<std::uint64_t>(inputs_.extent.train);
      }
      inputs_.train.write(samples, x);
    };
    return app::measure_profile({inputs_.model, options_, sizes, k_profile_s, write_input}, world_)
        .profile;
  }

  double simulated(const plan::Plan& plan, const model::Profile& profile) const {
    const planner::Workload work = planner::workload_of(profile, plan, options_.batch);
    const auto streams = schedule::training_streams(plan, {0, k_updates});
    return planner::simulate(plan, streams, work, app::profiled_cluster(profile, 2)).end_s;
  }

 private:
  std::int64_t largest(const plan::Plan& plan) const {
    return (options_.batch + plan.microbatches - 1) / plan.microbatches;
  }
  double slowest(double seconds) {
    std::vector<double> all(static_cast<std::size_t>(world_.size()), 0.0);
    all[static_cast<std::size_t>(world_.rank())] = seconds;
    all = world_.sum(all);
    return *std::max_element(all.begin(), all.end());
  }

  const app::TrainOptions& options_;
  comm::World& world_;
  base::SteadyClock clock_;
  app::TrainInputs inputs_;
  std::unique_ptr<ops::Ops> ops_;
  std::unique_ptr<comm::Channel> channel_;
  std::uint64_t images_drawn_ = 1;
};

std::string shape_of(const plan::Plan& plan) {
  std::string text =
      fmt::format("{:<6} {:<5} M {}  W {}", plan::name_of(plan.schedule),
                  plan::name_of(plan.policy), plan.microbatches, plan.stages.front().warmup);
  for (const plan::Stage& stage : plan.stages) {
    text += fmt::format("  {}-{}{}{}", stage.first, stage.last,
                        stage.replicas() > 1 ? " twice" : "", stage.recompute ? " again" : "");
  }
  return text;
}

void compare(Bench& bench, comm::World& world, int plans, std::uint64_t seed) {
  for (int i = 0; i < plans; ++i) {
    const plan::Plan plan = random_plan(bench.model(), seed + static_cast<std::uint64_t>(i));
    app::check_streams(plan, "a random plan");
    const model::Profile before = bench.profile(plan);
    const double first_s = bench.run(plan);
    const double second_s = bench.run(plan);
    const model::Profile after = bench.profile(plan);
    const double simulated_s = (bench.simulated(plan, before) + bench.simulated(plan, after)) / 2;
    if (world.rank() != 0) continue;
    const double measured_s = (first_s + second_s) / 2;
    fmt::print("{:8.2f} ms measured {:8.2f} ms simulated {:+7.2f} % error {:+7.2f} % again   {}\n",
               1e3 * measured_s / k_updates, 1e3 * simulated_s / k_updates,
               100 * (simulated_s / measured_s - 1), 100 * (second_s / first_s - 1),
               shape_of(plan));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace dynpipe::bench

int main(int argc, char** argv) {
  using namespace dynpipe;
  const auto world = comm::make_mpi_world(&argc, &argv);
  if (argc < 6 || world->size() != 2) {
    if (world->rank() == 0) {
      fmt::print(stderr, "usage: mpirun -n 2 prediction_bench MODEL DATA BATCH PLANS SEED\n");
    }
    return 2;
  }
  app::TrainOptions options;
  options.model = argv[1];
  options.data = argv[2];
  options.batch = std::atoll(argv[3]);
  options.optimizer.momentum = 0.9;
  options.threads = 1;
  options.replicas = {2};  // of one stage: both ranks read images and labels
  bench::Bench bench(options, *world);
  bench::compare(bench, *world, std::atoi(argv[4]), std::strtoull(argv[5], nullptr, 10));
  return 0;
}
