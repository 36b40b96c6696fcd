// Writes and reads a checkpoint of so many bytes, and prints the seconds each took.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "io/checkpoint.hpp"

using namespace dynpipe;

namespace {

constexpr int k_tensors = 32;

/// So many tensors of equal size, in memory of their own.
struct State {
  explicit State(std::int64_t bytes) : values(static_cast<std::size_t>(bytes) / sizeof(float)) {
    std::uint32_t next = 1;
    for (float& value : values) {
      next = next * 1664525U + 1013904223U;
      value = static_cast<float>(next) * 0x1p-32F;
    }
    const std::int64_t rows = static_cast<std::int64_t>(values.size()) / k_tensors / 1024;
    for (int i = 0; i < k_tensors; ++i) {
      float* const data = values.data() + static_cast<std::ptrdiff_t>(i) * rows * 1024;
      tensors.push_back({io::parameter_path(fmt::format("layer{}", i), "weight"),
                         {reinterpret_cast<std::byte*>(data),
                          tensor::DType::float32,
                          tensor::Layout::plain,
                          {rows, 1024}}});
    }
  }

  std::vector<float> values;
  std::vector<io::CheckpointTensor> tensors;
};

double written_s(const std::filesystem::path& folder, const State& state) {
  const base::SteadyClock clock;
  io::CheckpointFacts facts;
  facts.model = "bench";
  facts.dtype = "float32";
  facts.update = 1;
  for (int i = 0; i < k_tensors; ++i) {
    facts.layers.push_back({fmt::format("layer{}", i), io::shard_name(0)});
  }
  const double began_s = clock.now_s();
  const auto partial = io::begin_checkpoint(folder, 1);
  const auto digest = io::write_shard(partial / io::shard_name(0), state.tensors);
  io::complete_checkpoint(partial, facts, {{io::shard_name(0), digest}});
  return clock.now_s() - began_s;
}

double read_s(const std::filesystem::path& folder, const State& state) {
  const base::SteadyClock clock;
  const double began_s = clock.now_s();
  const io::Checkpoint checkpoint(folder / io::checkpoint_name(1));
  checkpoint.check_all();
  const io::File shard = checkpoint.open(io::shard_name(0));
  for (const io::CheckpointTensor& tensor : state.tensors) io::read_tensor(shard, tensor);
  return clock.now_s() - began_s;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: checkpoint_bench write|read FOLDER BYTES\n");
    return 2;
  }
  const State state(std::atoll(argv[3]));
  const bool writes = std::string_view(argv[1]) == "write";
  fmt::print("{:.6f}\n", writes ? written_s(argv[2], state) : read_s(argv[2], state));
}
