#include "app/measured_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "app/backend.hpp"
#include "app/profile_images.hpp"
#include "app/rank_places.hpp"
#include "base/errors.hpp"
#include "comm/mpi/mpi.hpp"
#include "device/cpu/cpu_device.hpp"
#include "ops/libraries.hpp"
#include "pipeline/layer_profiler.hpp"
#include "probe/cpus.hpp"
#include "probe/crowding.hpp"
#include "probe/traffic_timing.hpp"

namespace dynpipe::app {
namespace {

/// Medians that are known so well are not measured for longer.
constexpr double k_certain = 0.003;
/// Times around all sizes that a measurement is divided into at least.
constexpr double k_sweeps = 6;
constexpr double k_longest_slice_s = 0.5;

/// The length of a message between two layers that half of them are below.
std::size_t usual_message_bytes(const model::Profile& profile) {
  constexpr std::int64_t k_least = std::int64_t{1} << 12, k_most = std::int64_t{16} << 20;
  std::vector<std::int64_t> bytes;
  for (const model::LayerProfile& layer : profile.layers) bytes.push_back(layer.output_bytes);
  const auto middle = bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2);
  std::nth_element(bytes.begin(), middle, bytes.end());
  const std::int64_t samples = profile.samples[profile.samples.size() / 2];
  return static_cast<std::size_t>(std::clamp(*middle * samples, k_least, k_most));
}

template <typename Visit>
void visit_times(model::Profile& profile, const Visit& visit) {
  for (model::LayerProfile& layer : profile.layers) {
    visit(layer.update_s);
    for (model::LayerTimes& times : layer.times) {
      visit(times.forward_s);
      visit(times.backward_input_s);
      visit(times.backward_weight_s);
    }
  }
}

std::vector<double> times_of(model::Profile& profile) {
  std::vector<double> times;
  visit_times(profile, [&](double s) { times.push_back(s); });
  return times;
}

/// Means over ranks, and how each compares.
void average_over_ranks(model::Profile& profile, comm::World& world) {
  if (world.size() == 1) return;
  std::vector<double> own = times_of(profile);
  const double own_total = std::accumulate(own.begin(), own.end(), 0.0);
  std::vector<double> totals(static_cast<std::size_t>(world.size()));
  totals[static_cast<std::size_t>(world.rank())] = own_total;
  totals = world.sum(totals);
  const std::vector<double> all = world.sum(own);
  std::size_t next = 0;
  visit_times(profile, [&](double& s) { s = all[next++] / world.size(); });
  const double mean = std::accumulate(totals.begin(), totals.end(), 0.0) / world.size();
  for (const double total : totals) profile.slowdowns.push_back(total / mean);
}

std::vector<model::LinkProfile> measure_links(const model::Profile& profile, comm::World& world,
                                              const base::Clock& clock, double deadline_s) {
  comm::WaitPolicy attentive;
  attentive.deadline_s = deadline_s;
  attentive.spin_s = 1;
  const auto channel = comm::make_mpi_channel(world, clock, attentive);
  const probe::TrafficTiming own =
      probe::time_traffic(world, *channel, usual_message_bytes(profile), clock);
  const int links = world.size() - 1;
  std::vector<double> numbers(static_cast<std::size_t>(4 * links));
  if (world.rank() < links) {
    const std::array<double, 4> each{own.latency_s, own.bytes_per_s, own.both_ways_bytes_per_s,
                                     own.overlap};
    std::copy(each.begin(), each.end(), numbers.begin() + 4 * world.rank());
  }
  numbers = world.sum(numbers);
  std::vector<model::LinkProfile> result;
  for (int r = 0; r < links; ++r) {
    const double* each = &numbers[static_cast<std::size_t>(4 * r)];
    result.push_back({r, r + 1, each[0], each[1], each[2], each[3]});
  }
  return result;
}

/// Whether all ranks are certain enough, or time is up for the first.
bool all_done(double uncertainty, double passed_s, double seconds, comm::World& world) {
  const bool time_is_up = world.rank() == 0 && passed_s >= seconds;
  const std::vector<double> ranks =
      world.sum({uncertainty > k_certain ? 1.0 : 0.0, time_is_up ? 1.0 : 0.0});
  return ranks[0] == 0 || ranks[1] > 0;
}

}  // namespace

std::string profile_device(int threads) {
  const std::string cpu = probe::parse_cpuinfo(probe::read_text("/proc/cpuinfo").value_or("")).name;
  return fmt::format("{}, {} thread{}", cpu.empty() ? "cpu" : cpu, threads,
                     threads == 1 ? "" : "s");
}

std::string profile_build(const TrainOptions& options) {
  const ops::MathsLibraries maths = ops::maths_libraries();
  const std::string_view dtype = tensor::name_of(options.dtype);
  if (!uses_onednn(options)) return fmt::format("reference, {}, GCC {}", dtype, __VERSION__);
  return fmt::format("{}, {}, {}, {}, GCC {}", maths.onednn, maths.isa, maths.blas, dtype,
                     __VERSION__);
}

int profile_threads(const TrainOptions& options, comm::World& world) {
  const auto places = share_places(world, uses_onednn(options) ? options.threads : 1);
  return places[static_cast<std::size_t>(world.rank())].threads;
}

void check_sizes(const model::Model& model, const std::vector<std::int64_t>& samples) {
  for (const model::Layer& layer : model.layers) {
    if (samples.front() < layer.facts.least_samples) {
      throw base::InputError(
          layer.spec.file + ": " + layer.spec.where, "",
          fmt::format("trains on microbatches of at least {} samples, {} is among the sizes",
                      layer.facts.least_samples, samples.front()));
    }
  }
}

MeasuredProfile measure_profile(const ProfileRequest& request, comm::World& world,
                                const std::function<void(const ProfileProgress&)>& progress) {
  const TrainOptions& options = request.options;
  const base::SteadyClock clock;
  const int threads = profile_threads(options, world);
  comm::WaitPolicy policy;
  policy.deadline_s = options.deadline_s;
  const auto channel = comm::make_mpi_channel(world, clock, policy);
  const auto ops = make_ops(options, threads);
  device::CpuDevice device;
  const auto write_input =
      request.write_input ? request.write_input : made_up_images(request.model.input, options.seed);
  pipeline::LayerProfiler profiler({request.model, device, *ops, clock, options.optimizer,
                                    options.batch, request.samples,
                                    options.stages.value_or(world.size()), world.rank(),
                                    options.seed, write_input, [&] { channel->poll(); }});
  world.barrier();
  const double began_s = clock.now_s();
  const double slice_s = std::min(
      k_longest_slice_s, request.seconds / k_sweeps /
                             static_cast<double>(request.samples.size() *
                                                 static_cast<std::size_t>(profiler.stages())));
  MeasuredProfile measured;
  ProfileQuality& quality = measured.quality;
  do {
    profiler.sweep(slice_s);
    quality = {profiler.uncertainty(), profiler.spread(), clock.now_s() - began_s};
    if (progress) progress({quality.passed_s, profiler.groups(), quality.uncertainty});
  } while (!all_done(quality.uncertainty, quality.passed_s, request.seconds, world));

  model::Profile& profile = measured.profile;
  profile.model = request.model.name;
  profile.device = profile_device(threads);
  profile.build = profile_build(options);
  profile.batch = options.batch;
  profile.samples = request.samples;
  profile.layers = profiler.layers();
  average_over_ranks(profile, world);
  if (world.size() > 1) profile.links = measure_links(profile, world, clock, options.deadline_s);
  return measured;
}

}  // namespace dynpipe::app
