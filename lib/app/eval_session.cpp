#include "app/eval_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "app/backend.hpp"
#include "app/confusion.hpp"
#include "app/eval_options.hpp"
#include "app/predictions.hpp"
#include "app/rank_places.hpp"
#include "app/same_options.hpp"
#include "app/train_inputs.hpp"
#include "app/weights_file.hpp"
#include "base/errors.hpp"
#include "comm/mpi/mpi.hpp"
#include "device/cpu/cpu_device.hpp"
#include "pipeline/worker.hpp"
#include "probe/crowding.hpp"
#include "probe/launcher.hpp"

namespace dynpipe::app {
namespace {

/// What an evaluation came to, on rank 0.
struct EvalResult {
  double loss = 0;
  double seconds = 0;
  Predictions predictions;
};

/// The session's options as those of a run that is never trained: one version of the weights, and a
/// microbatch in hand for every replica.
TrainOptions as_run(const EvalOptions& options, const comm::World& world) {
  TrainOptions run = options.run;
  run.schedule = plan::Schedule::one_f_one_b;
  run.optimizer.momentum = 0;
  run.microbatches = std::min(world.size(), plan::k_most_microbatches);
  run.batch = options.run.batch * run.microbatches;
  run.shuffle_window_mib = 0;  // all samples are there, in their order
  run.evaluation_only = true;
  return run;
}

class EvalSession {
 public:
  EvalSession(const EvalOptions& options, comm::World& world)
      : options_(options),
        run_(as_run(options, world)),
        world_(world),
        inputs_(read_train_inputs(run_, world)),
        places_(share_places(world, uses_onednn(run_) ? run_.threads : 1)),
        ops_(make_ops(run_, places_[static_cast<std::size_t>(world.rank())].threads)),
        channel_(comm::make_mpi_channel(
            world, clock_,
            wait_policy(run_.deadline_s, probe::has_its_cores(places_, world.rank())))),
        images_(options.split == data::Split::test ? inputs_.test : inputs_.train),
        order_(options.split == data::Split::test ? inputs_.extent.test : inputs_.extent.train,
               options.run.batch) {}

  void run() {
    tensor::StateDict weights;
    world_.together([&] {
      weights = read_weights(options_.weights, inputs_.model, own_layers());
      if (world_.rank() == 0 && !options_.predictions.empty()) {
        require_writable(options_.predictions);
      }
    });
    const EvalResult result = evaluate(weights);
    world_.together([&] {
      if (world_.rank() == 0) report(result);
    });
  }

 private:
  std::span<const model::Layer> own_layers() const {
    const auto s = static_cast<std::size_t>(inputs_.plan.stage_of(world_.rank()));
    return plan::layers_of(inputs_.model, inputs_.plan.stages[s]);
  }

  EvalResult evaluate(const tensor::StateDict& weights) {
    pipeline::Worker worker({.model = inputs_.model,
                             .plan = inputs_.plan,
                             .device = device_,
                             .channel = *channel_,
                             .ops = *ops_,
                             .clock = clock_,
                             .optimizer = run_.optimizer,
                             .learning_rate = {},
                             .max_samples = options_.run.batch,
                             .seed = 0,
                             .on_group = {}});
    worker.load(weights, 0, options_.weights);
    const EvaluationFeed feed(order_, images_);
    Predictions own;
    own.classes = inputs_.model.classes;
    const auto keep = [&](std::int64_t microbatch, const tensor::Tensor& logits) {
      std::vector<std::int32_t> labels(static_cast<std::size_t>(feed.size(microbatch)));
      feed.write_labels(microbatch, {reinterpret_cast<std::byte*>(labels.data()),
                                     tensor::DType::int32,
                                     tensor::Layout::plain,
                                     {feed.size(microbatch)}});
      own.add(labels, logits, !options_.predictions.empty());
    };
    const std::int64_t m = inputs_.plan.microbatches;
    const double began_s = clock_.now_s();
    const auto totals = worker.evaluate((order_.microbatches() + m - 1) / m * m, feed, keep);
    const std::vector<double> sums = world_.sum({totals.loss_sum, totals.samples});
    EvalResult result{sums[0] / sums[1], clock_.now_s() - began_s, {}};
    std::vector<Predictions> parts;
    for (const std::string& bytes : world_.gather(pack(own))) {
      parts.push_back(unpack_predictions(bytes));
    }
    if (!parts.empty()) result.predictions = in_sample_order(parts, inputs_.plan, order_);
    return result;
  }

  void report(const EvalResult& result) {
    const Predictions& found = result.predictions;
    Confusion confusion(found.classes);
    confusion.add(found.labels, found.predictions);
    std::int64_t correct = 0;
    for (std::int64_t label = 0; label < found.classes; ++label) {
      correct += confusion.correct(label);
    }
    const auto samples = static_cast<double>(found.labels.size());
    fmt::print("{} with {}: {} {} samples of {}\n\n{}\n", inputs_.model.name, options_.weights,
               found.labels.size(), options_.split == data::Split::test ? "test" : "training",
               run_.data, describe(confusion));
    fmt::print("accuracy {:.2f} %   loss {:.4f}   {:.0f} samples/s\n",
               100 * static_cast<double>(correct) / samples, result.loss,
               samples / std::max(result.seconds, 1e-9));
    if (!options_.predictions.empty()) {
      write_predictions(options_.predictions, found, run_.dtype);
      fmt::print("\npredictions written to {}\n", options_.predictions);
    }
    std::fflush(stdout);
  }

  const EvalOptions& options_;
  TrainOptions run_;
  comm::World& world_;
  base::SteadyClock clock_;
  TrainInputs inputs_;
  std::vector<probe::RankPlace> places_;
  device::CpuDevice device_;
  std::unique_ptr<ops::Ops> ops_;
  std::unique_ptr<comm::Channel> channel_;
  const NormalisedImages& images_;
  data::EvaluationOrder order_;
};

}  // namespace

void evaluate(const std::vector<std::string>& words, comm::World& world,
              const std::function<void(const std::exception&)>& on_failure) {
  std::optional<EvalOptions> options;
  world.together([&] {
    options = parse_eval_options(words);
    const std::string mismatch = probe::launcher_mismatch(world.size(), std::getenv);
    if (options && !mismatch.empty()) throw base::InputError("", "", mismatch);
  });
  require_same_options(options ? options->run.texts : OptionTexts{{"help", ""}}, world);
  if (!options) {
    if (world.rank() == 0) fmt::print("{}", eval_help());
    return;
  }
  world.set_deadline(options->run.deadline_s);
  EvalSession session(*options, world);
  try {
    session.run();
  } catch (const comm::AgreedError&) {
    throw;
  } catch (const std::exception& failure) {
    on_failure(failure);
    throw;
  }
}

}  // namespace dynpipe::app
