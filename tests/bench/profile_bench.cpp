// Whether a profile's layers add up to what training takes: the profiler and an asynchronous
// pipeline over these ranks in turns, on the same images and weights, within one program, so that
// both see the machine as it is at the time. All ranks do either at once.
//
// mpirun -n RANKS profile_bench MODEL DATA BATCH MICROBATCHES SECONDS [LR]
//
// A line a rank: its stage's layers, then forwards, backwards and updates of training, both in
// microseconds a group; then each round's ratio.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "app/profile_images.hpp"
#include "app/rank_places.hpp"
#include "app/text_file.hpp"
#include "comm/mpi/mpi.hpp"
#include "device/cpu/cpu_device.hpp"
#include "nn/parameters.hpp"
#include "pipeline/layer_profiler.hpp"
#include "pipeline/worker.hpp"
#include "probe/crowding.hpp"

namespace dynpipe::bench {
namespace {

/// The images of the profile, to train on.
class Images final : public pipeline::Feed {
 public:
  Images(app::WriteImages write, std::int64_t classes, std::int64_t batch, int microbatches)
      : write_(std::move(write)),
        classes_(classes),
        batch_(batch),
        size_((batch + microbatches - 1) / microbatches),
        numbers_(static_cast<std::size_t>(size_)) {}

  std::int64_t size(std::int64_t) const override { return size_; }
  std::int64_t group_size(std::int64_t) const override { return batch_; }
  std::span<const std::uint64_t> samples(std::int64_t) const override { return numbers_; }
  void write_input(std::int64_t, const tensor::Tensor& x) const override { write_(x); }
  void write_labels(std::int64_t, const tensor::Tensor& labels) const override {
    for (std::int64_t i = 0; i < size_; ++i) {
      labels.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % classes_);
    }
  }

 private:
  app::WriteImages write_;
  std::int64_t classes_, batch_, size_;
  std::vector<std::uint64_t> numbers_;
};

struct Request {
  model::Model model;
  std::string data;
  std::int64_t batch;
  int microbatches;
  double seconds;
  double learning_rate;
};

double stage_s(const std::vector<model::LayerProfile>& layers, const plan::Stage& stage,
               int microbatches) {
  double passes_s = 0, updates_s = 0;
  for (int i = stage.first; i <= stage.last; ++i) {
    const model::LayerProfile& layer = layers[static_cast<std::size_t>(i)];
    const model::LayerTimes& times = layer.times.front();
    passes_s += times.forward_s + times.backward_input_s + times.backward_weight_s;
    updates_s += layer.update_s;
  }
  return passes_s * microbatches + updates_s;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string run(const Request& request, comm::World& world) {
  const base::SteadyClock clock;
  const auto places = app::share_places(world, 1);
  comm::WaitPolicy policy{.deadline_s = 60};
  if (probe::has_its_cores(places, world.rank())) {
    policy.spin_s = comm::WaitPolicy::k_spin_on_own_core_s;
  }
  const auto channel = comm::make_mpi_channel(world, clock, policy);
  device::CpuDevice device;
  const auto write = app::training_images(request.data, request.model, 1);
  const Images feed(write, request.model.classes, request.batch, request.microbatches);
  const plan::Plan plan = plan::equal_flops_plan(
      request.model,
      {plan::Schedule::asynchronous, plan::WeightPolicy::double_buffer, request.microbatches,
       std::vector<int>(static_cast<std::size_t>(world.size()), 1)});
  const plan::Stage& stage = plan.stages[static_cast<std::size_t>(world.rank())];
  const auto ops = ops::make_onednn_ops(1);
  const nn::LearningRate rate{nn::LearningRateKind::constant, request.learning_rate};
  pipeline::Worker worker(
      {request.model, plan, device, *channel, *ops, clock, {}, rate, feed.size(0), 1, {}});
  worker.load(nn::initial_state(plan::layers_of(request.model, stage), 1), 0, "");
  const auto profiler_ops = ops::make_onednn_ops(1);
  // Round by round a new one, so that a round's profile is of that round.
  const auto profile_s = [&](double seconds) {
    pipeline::LayerProfiler profiler({request.model,
                                      device,
                                      *profiler_ops,
                                      clock,
                                      {},
                                      request.batch,
                                      {feed.size(0)},
                                      world.size(),
                                      world.rank(),
                                      1,
                                      write,
                                      [&] { channel->poll(); }});
    world.barrier();
    profiler.sweep(seconds);
    return stage_s(profiler.layers(), stage, request.microbatches);
  };

  std::int64_t group = 0;
  const auto train = [&](std::int64_t groups) {
    const double before_s = worker.times().busy();
    worker.train({group, group + groups}, 0, feed);
    group += groups;
    return (worker.times().busy() - before_s) / static_cast<double>(groups);
  };
  train(3);
  double group_s = train(3);
  group_s = world.sum({group_s})[0];
  const double round_s = 0.3;
  const auto groups = std::max<std::int64_t>(
      2, static_cast<std::int64_t>(round_s / std::max(group_s, 1e-6) * world.size()));
  std::vector<double> profiled, trained, ratios;
  const int rounds = std::max(3, static_cast<int>(request.seconds / (2 * round_s)));
  for (int round = 0; round < rounds; ++round) {
    profiled.push_back(profile_s(round_s));
    world.barrier();
    trained.push_back(train(groups));
    ratios.push_back(profiled.back() / trained.back());
  }
  std::sort(ratios.begin(), ratios.end());
  return fmt::format("{:.1f} {:.1f} {:.4f}", 1e6 * median(profiled), 1e6 * median(trained),
                     fmt::join(ratios, " "));
}

}  // namespace
}  // namespace dynpipe::bench

int main(int argc, char** argv) {
  using namespace dynpipe;
  if (argc < 6) {
    fmt::print(stderr, "usage: profile_bench MODEL DATA BATCH MICROBATCHES SECONDS [LR]\n");
    return 2;
  }
  const auto world = comm::make_mpi_world(&argc, &argv);
  const bench::Request request{
      model::parse_model(app::read_text_file(argv[1]), argv[1], nn::layer_types()),
      argv[2],
      std::atoll(argv[3]),
      std::atoi(argv[4]),
      std::atof(argv[5]),
      argc > 6 ? std::atof(argv[6]) : 0};
  const std::vector<std::string> lines = world->gather(bench::run(request, *world));
  for (const std::string& line : lines) fmt::print("{}\n", line);
  return 0;
}
