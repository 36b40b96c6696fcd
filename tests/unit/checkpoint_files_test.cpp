#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/errors.hpp"
#include "io/checkpoint.hpp"
#include "support/files.hpp"

namespace dynpipe::io {
namespace {

using testing::expect_contains;
using testing::refusal_of;

namespace fs = std::filesystem;

/// Two stages of one layer each, the first with an older version of its weights.
class CheckpointFiles : public ::testing::Test {
 protected:
  CheckpointFiles() {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<float>(i) / 7;
  }

  tensor::Tensor view(float* data) const {
    return {
        reinterpret_cast<std::byte*>(data), tensor::DType::float32, tensor::Layout::plain, {2, 3}};
  }

  CheckpointFacts facts(std::int64_t update) const {
    CheckpointFacts facts;
    facts.model = "small";
    facts.dtype = "float32";
    facts.update = update;
    facts.epoch = 1;
    facts.optimizer = "sgd";
    facts.optimizer_steps = update;
    facts.created = "2025-06-30T12:00:00Z";
    facts.program = "dynpipe 0.1.0";
    facts.plan = "{\"plan\": 1}";
    facts.config = "{}";
    facts.progress = "[]";
    facts.layers = {{"conv1", "stage-0.h5"}, {"fc", "stage-1.h5"}};
    return facts;
  }

  fs::path write(std::int64_t update) {
    const fs::path partial = begin_checkpoint(folder_.path(), update);
    FileDigests shards;
    shards["stage-0.h5"] =
        write_shard(partial / "stage-0.h5",
                    {{parameter_path("conv1", "weight"), view(values_.data())},
                     {version_path(update - 1, "conv1", "weight"), view(values_.data() + 6)},
                     {optimizer_path("momentum_buffer", "conv1", "weight"), view(values_.data())}});
    shards["stage-1.h5"] = write_shard(
        partial / "stage-1.h5", {{parameter_path("fc", "weight"), view(values_.data() + 12)}});
    complete_checkpoint(partial, facts(update), shards);
    return folder_.path() / checkpoint_name(update);
  }

  testing::TemporaryFolder folder_;
  std::array<float, 18> values_{};
};

TEST_F(CheckpointFiles, ComeBackAsTheyWereWritten) {
  const Checkpoint checkpoint(write(400));
  checkpoint.check_all();
  const CheckpointFacts found = checkpoint.facts();
  EXPECT_EQ(found.update, 400);
  EXPECT_EQ(found.plan, facts(400).plan);
  ASSERT_EQ(found.layers.size(), 2U);
  EXPECT_EQ(found.layers[1].file, "stage-1.h5");
  std::array<float, 6> read{};
  read_tensor(checkpoint.open("stage-0.h5"),
              {version_path(399, "conv1", "weight"), view(read.data())});
  EXPECT_EQ(std::memcmp(read.data(), values_.data() + 6, sizeof(read)), 0);
}

TEST_F(CheckpointFiles, ShowEveryTensorInTheIndex) {
  const File index = File::open(write(400) / k_index_file);
  for (const char* path : {"/model/conv1/weight", "/model/fc/weight", "/versions/399/conv1/weight",
                           "/optimizer/momentum_buffer/conv1/weight"}) {
    EXPECT_TRUE(index.has(path)) << path;
  }
  const auto values = index.dataset("/model/fc/weight").read_all<float>();
  EXPECT_EQ(values[0], values_[12]);
}

TEST_F(CheckpointFiles, AreListedByUpdateOnceComplete) {
  write(400);
  write(90);
  begin_checkpoint(folder_.path(), 500);
  fs::create_directory(folder_.path() / "step-80.removed");
  fs::create_directory(folder_.path() / "step-07");
  fs::create_directory(folder_.path() / "step-x");
  const auto found = list_checkpoints(folder_.path());
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].update, 90);
  EXPECT_EQ(found[1].update, 400);
  EXPECT_TRUE(list_checkpoints(folder_.path() / "nowhere").empty());
  remove_leftovers(folder_.path());
  EXPECT_FALSE(fs::exists(folder_.path() / "step-500.partial"));
  EXPECT_FALSE(fs::exists(folder_.path() / "step-80.removed"));
  EXPECT_TRUE(fs::exists(folder_.path() / "step-400"));
  EXPECT_TRUE(fs::exists(folder_.path() / "step-x"));
}

TEST_F(CheckpointFiles, ReplaceTheirFormerSelves) {
  write(400);
  values_[0] = 77;
  const Checkpoint again(write(400));
  std::array<float, 6> read{};
  read_tensor(again.open("stage-0.h5"), {parameter_path("conv1", "weight"), view(read.data())});
  EXPECT_EQ(read[0], 77);
}

TEST_F(CheckpointFiles, NameTheFileThatIsDamaged) {
  const fs::path path = write(400);
  const Checkpoint checkpoint(path);
  {
    std::fstream shard(path / "stage-1.h5", std::ios::in | std::ios::out | std::ios::binary);
    shard.seekp(-1, std::ios::end);
    shard.put('x');
  }
  expect_contains(refusal_of([&] { checkpoint.check_all(); }), "stage-1.h5: is damaged");
  fs::resize_file(path / "stage-0.h5", 100);
  expect_contains(refusal_of([&] { checkpoint.check("stage-0.h5"); }), "it has 100 bytes");
  fs::remove(path / "stage-0.h5");
  expect_contains(refusal_of([&] { checkpoint.check("stage-0.h5"); }),
                  "stage-0.h5: cannot be read");
  fs::remove(path / k_digests_file);
  expect_contains(refusal_of([&] { Checkpoint again(path); }), "was never completed");
}

TEST_F(CheckpointFiles, HoldTensorsToTheirChecksums) {
  const fs::path path = write(400);
  const CheckpointTensor other{
      parameter_path("conv1", "weight"),
      {view(values_.data()).data, tensor::DType::float32, tensor::Layout::plain, {3, 2}}};
  const Checkpoint checkpoint(path);
  const File shard = checkpoint.open("stage-0.h5");
  expect_contains(refusal_of([&] { read_tensor(shard, other); }), "has shape [2,3], not [3,2]");
  expect_contains(refusal_of([&] {
                    read_tensor(shard, {parameter_path("conv1", "bias"), view(values_.data())});
                  }),
                  "/model/conv1/bias: is missing");
}

TEST(Digests, RefuseWhatIsNoListOfFiles) {
  const FileDigests digests{{"index.h5", {std::string(32, 'a'), 12}},
                            {"stage-0.h5", {std::string(32, '0'), 4000}}};
  const std::string text = to_text(digests);
  EXPECT_EQ(parse_digests(text, "d").at("stage-0.h5").bytes, 4000U);
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_THROW(parse_digests(text.substr(0, length), "d"), base::InputError) << length;
  }
  for (const char* bad : {"hello\n", "# 1 bytes: ../x\n", "# 1 bytes: a\n# 1 bytes: a\n"}) {
    EXPECT_THROW(parse_digests(bad, "d"), base::InputError) << bad;
  }
}

}  // namespace
}  // namespace dynpipe::io
