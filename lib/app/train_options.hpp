#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/checkpoint_options.hpp"
#include "app/option_parser.hpp"
#include "data/augmentation.hpp"
#include "nn/learning_rate.hpp"
#include "nn/optimizer.hpp"
#include "plan/plan.hpp"
#include "planner/kappa.hpp"
#include "tensor/tensor.hpp"

namespace dynpipe::app {

/// How progress is shown.
enum class ProgressStyle {
  automatic,  ///< live on a terminal, else log
  live,       ///< one line that is written over
  log,        ///< one line every so many updates
};

/// How a run on a described cluster passes its time.
enum class EmulationMode {
  virtual_time,  ///< clocks show the described times, ranks run as fast as they can
  paced,         ///< ranks are held back to the described times
};

/// What `dynpipe train` was asked to do.
struct TrainOptions {
  std::string model;  ///< file
  std::string data;   ///< folder or HDF5 file
  std::int64_t epochs = 5;
  std::optional<std::int64_t> max_updates;
  std::int64_t batch = 64;  ///< samples of an update group
  std::uint64_t seed = 1;
  std::int64_t shuffle_window_mib = 256;  ///< of an HDF5 file's images, in memory
  data::Augmentation augmentation;        ///< of training images
  std::optional<std::int64_t> prefetch;   ///< microbatches prepared ahead; empty: by the data set

  std::string plan;  ///< file; empty: made from the next three
  std::optional<int> stages;
  bool any_stages = false;                  ///< the planner decides how many, and their replicas
  std::string algorithm = "dynpipe";        ///< that cuts layers into stages: or "flops"
  double kappa = planner::k_assumed_kappa;  ///< what a delay costs: see planner::SearchRequest
  std::vector<int> replicas;                ///< per stage; empty: not said
  plan::Schedule schedule = plan::Schedule::asynchronous;
  plan::WeightPolicy policy = plan::WeightPolicy::double_buffer;
  std::string recompute = "none";  ///< stages, as plan::set_recompute reads them
  int microbatches = 4;

  nn::OptimizerSettings optimizer;
  double label_smoothing = 0;
  nn::LearningRateKind learning_rate_kind = nn::LearningRateKind::cosine;
  double learning_rate = 0.05;
  std::int64_t warmup_updates = 0;
  std::int64_t step_epochs = 1;
  double step_factor = 0.1;

  tensor::DType dtype = tensor::DType::float32;
  std::string backend = "auto";
  std::optional<int> threads;  ///< of a rank's maths; empty: see probe::choose_threads
  std::string save_weights;    ///< file; empty: none
  CheckpointOptions checkpoints;
  bool evaluation_only =
      false;            ///< nothing is trained: batches and microbatches may be of any size
  std::string profile;  ///< file; empty: cached or measured, where one is needed
  std::string emulate;  ///< cluster file; empty: this machine, as it is
  EmulationMode emulation_mode = EmulationMode::virtual_time;
  bool dry_run = false;
  std::optional<int> ranks;   ///< of a dry run; empty: those of the job
  std::string summary;        ///< file; empty: none
  std::string metrics;        ///< file; empty: none
  std::string trace;          ///< file; empty: none
  bool trace_events = false;  ///< single steps too
  std::string write_plan;     ///< file; empty: none
  ProgressStyle progress = ProgressStyle::automatic;
  std::int64_t log_every = 100;  ///< updates
  double deadline_s = 300;
  /// Updates from one comparison of gradients to the next; empty: none.
  std::optional<std::int64_t> measure_kappa;

  OptionTexts texts;  ///< of all options, to be compared with other ranks'
};

/// Reads `dtype` and checks the options that training and evaluation share: --dtype, --backend,
/// --threads, --stages, --deadline. Throws InputError naming the option.
void check_run_options(const std::string& dtype, TrainOptions& options);

/// Throws InputError where an option was given that a plan file says, if there is one.
void check_plan_alone(const std::string& plan, const boost::program_options::variables_map& values);

/// Whether the maths is oneDNN's; else it is the reference.
bool uses_onednn(const TrainOptions& options);

/// Text of `dynpipe train --help`.
std::string train_help();

/// Reads the words after `train`, and the file that --config names (INI: `option = value` a line;
/// the command line wins). Empty if --help was asked for. Throws InputError naming the option.
std::optional<TrainOptions> parse_train_options(const std::vector<std::string>& words);

}  // namespace dynpipe::app
