#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "app/train_options.hpp"
#include "comm/world.hpp"
#include "model/profile.hpp"

namespace dynpipe::app {

/// What is measured. What is referred to outlives the measurement.
struct ProfileRequest {
  const model::Model& model;
  const TrainOptions& options;        ///< batch, stages, optimizer, dtype, backend, threads
  std::vector<std::int64_t> samples;  ///< microbatch sizes, rising
  double seconds = 10;                ///< for the layers, at most; links take about a second more
  /// Leaves a microbatch in x [N, input of the model], plain, as training would; made-up pictures
  /// where it is empty. What pooling and activations take depends on what they see.
  std::function<void(const tensor::Tensor& x)> write_input = {};
};

/// How far a measurement has come, for those who watch.
struct ProfileProgress {
  double passed_s = 0;
  int groups = 0;          ///< update groups of the size with fewest
  double uncertainty = 1;  ///< standard error of the least certain median, relative to it
};

/// What a profile does not say of its measurement.
struct ProfileQuality {
  double uncertainty = 1;
  double spread = 0;  ///< distance of the quartiles over the median, of the size with most
  double passed_s = 0;
};

struct MeasuredProfile {
  model::Profile profile;
  ProfileQuality quality;  ///< of rank 0
};

/// The ranks' device and the libraries that do the maths, as a profile names them.
std::string profile_device(int threads);
std::string profile_build(const TrainOptions& options);

/// Threads of a rank's maths as training would choose them. Collective.
int profile_threads(const TrainOptions& options, comm::World& world);

/// Throws InputError naming a layer that cannot train on microbatches of one of these sizes.
void check_sizes(const model::Model& model, const std::vector<std::int64_t>& samples);

/// Measures layers on all ranks at once and averages them over ranks, then each rank's link to the
/// next with messages as large as most of the model's. Collective; the same on all ranks.
/// `progress` is called now and then; it may be empty.
MeasuredProfile measure_profile(const ProfileRequest& request, comm::World& world,
                                const std::function<void(const ProfileProgress&)>& progress = {});

/// Layers, links and what was measured: a table for people.
std::string describe_profile(const MeasuredProfile& measured, const model::Model& model);

}  // namespace dynpipe::app
