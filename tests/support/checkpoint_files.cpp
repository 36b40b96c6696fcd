#include "support/checkpoint_files.hpp"

#include <fmt/format.h>

#include <deque>
#include <vector>

namespace dynpipe::testing {
namespace {

namespace fs = std::filesystem;

/// Tensors of a shard, and their memory.
class Shard {
 public:
  void add(const std::string& path, const base::Shape& shape) {
    std::vector<float>& values = memory_.emplace_back(static_cast<std::size_t>(shape.elements()));
    for (float& value : values) value = static_cast<float>(++count_) / 8;
    tensors_.push_back({path,
                        {reinterpret_cast<std::byte*>(values.data()), tensor::DType::float32,
                         tensor::Layout::plain, shape}});
  }
  io::FileDigest write(const fs::path& file) const { return io::write_shard(file, tensors_); }

 private:
  std::deque<std::vector<float>> memory_;
  std::vector<io::CheckpointTensor> tensors_;
  int count_ = 0;
};

}  // namespace

const char* const k_small_model = R"({
  "name": "small", "input": [1, 4, 4], "loss": "softmax_cross_entropy",
  "layers": [
    {"name": "conv1", "type": "conv2d", "out_channels": 2, "kernel": 3, "padding": 1},
    {"name": "bn1", "type": "batchnorm2d"},
    {"name": "pool", "type": "global_avgpool"},
    {"name": "flatten", "type": "flatten"},
    {"name": "fc", "type": "linear", "out_features": 3}]})";

fs::path write_small_checkpoint(const fs::path& folder, std::int64_t update) {
  const fs::path partial = io::begin_checkpoint(folder, update);
  Shard first, last;
  for (const char* layer : {"conv1", "bn1"}) {
    for (const char* name : {"weight", "bias"}) {
      const bool kernel = layer[0] == 'c' && name[0] == 'w';
      const base::Shape shape = kernel ? base::Shape{2, 1, 3, 3} : base::Shape{2};
      first.add(io::parameter_path(layer, name), shape);
      first.add(io::version_path(update - 1, layer, name), shape);
      first.add(io::optimizer_path("momentum_buffer", layer, name), shape);
    }
  }
  for (const char* name : {"running_mean", "running_var"}) {
    first.add(io::parameter_path("bn1", name), {2});
  }
  for (const char* name : {"weight", "bias"}) {
    const base::Shape shape = name[0] == 'w' ? base::Shape{3, 2} : base::Shape{3};
    last.add(io::parameter_path("fc", name), shape);
    last.add(io::optimizer_path("momentum_buffer", "fc", name), shape);
  }
  io::FileDigests shards;
  shards["stage-0.h5"] = first.write(partial / "stage-0.h5");
  shards["stage-1.h5"] = last.write(partial / "stage-1.h5");

  io::CheckpointFacts facts;
  facts.model = "small";
  facts.dtype = "float32";
  facts.update = update;
  facts.epoch = 1;
  facts.optimizer = "sgd";
  facts.optimizer_steps = update;
  facts.created = "2025-06-30T12:00:00Z";
  facts.program = "dynpipe 0.1.0";
  facts.plan = R"({"schedule": "async", "weights": "2bw", "microbatches": 2,)"
               R"( "stages": [{"ranks": [0, 2]}, {"ranks": [1]}]})";
  facts.config = R"({"options": {"lr": "0.05", "config": ""}})";
  facts.progress =
      R"({"epochs": [{"epoch": 1, "train_loss": 0.5, "train_accuracy": 0.75, "test_loss": 0.25,)"
      R"( "test_accuracy": 0.875, "wall_s": 3, "train_s": 2, "samples": 64}],)"
      R"( "epoch_so_far": {"loss_sum": 6, "correct": 4, "samples": 16, "train_s": 1}})";
  for (const char* layer : {"conv1", "bn1", "pool"}) facts.layers.push_back({layer, "stage-0.h5"});
  for (const char* layer : {"flatten", "fc"}) facts.layers.push_back({layer, "stage-1.h5"});
  io::complete_checkpoint(partial, facts, shards);
  return folder / io::checkpoint_name(update);
}

}  // namespace dynpipe::testing
