#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fstream>

#include "base/errors.hpp"
#include "io/checkpoint.hpp"
#include "support/checkpoint_files.hpp"
#include "support/files.hpp"

namespace dynpipe::io {
namespace {

using testing::expect_contains;
using testing::refusal_of;
namespace fs = std::filesystem;

class CheckpointFiles : public ::testing::Test {
 protected:
  fs::path write(std::int64_t update) {
    return testing::write_small_checkpoint(folder_.path(), update);
  }
  /// `fc.weight` [3,2], to be read into `values_`.
  CheckpointTensor fc_weight(const base::Shape& shape = {3, 2}) {
    return {parameter_path("fc", "weight"),
            {reinterpret_cast<std::byte*>(values_.data()), tensor::DType::float32,
             tensor::Layout::plain, shape}};
  }

  testing::TemporaryFolder folder_;
  std::array<float, 6> values_{};
};

TEST_F(CheckpointFiles, ComeBackAsTheyWereWritten) {
  const Checkpoint checkpoint(write(400));
  checkpoint.check_all();
  const CheckpointFacts found = checkpoint.facts();
  EXPECT_EQ(found.update, 400);
  EXPECT_EQ(found.optimizer_steps, 400);
  expect_contains(found.plan, R"("weights": "2bw")");
  ASSERT_EQ(found.layers.size(), 5U);
  EXPECT_EQ(found.layers.back().name, "fc");
  EXPECT_EQ(found.layers.back().file, "stage-1.h5");
  read_tensor(checkpoint.open("stage-1.h5"), fc_weight());
  EXPECT_EQ(checkpoint.open("stage-1.h5").dataset("/model/fc/weight").read_all<float>(),
            std::vector<float>(values_.begin(), values_.end()));
}

TEST_F(CheckpointFiles, ShowEveryTensorInTheIndex) {
  const File index = File::open(write(400) / k_index_file);
  for (const char* path : {"/model/conv1/weight", "/model/bn1/running_mean", "/model/fc/weight",
                           "/versions/399/conv1/weight", "/optimizer/momentum_buffer/fc/bias"}) {
    EXPECT_TRUE(index.has(path)) << path;
  }
  EXPECT_EQ(index.dataset("/model/fc/weight").shape(), (Extent{3, 2}));
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
  fs::resize_file(write(400) / "stage-1.h5", 100);
  const Checkpoint again(write(400));
  again.check_all();
  remove_checkpoint(again.path());
  EXPECT_TRUE(fs::is_empty(folder_.path()));
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

TEST_F(CheckpointFiles, HoldTensorsToShapeAndChecksum) {
  const fs::path path = write(400);
  const File shard = Checkpoint(path).open("stage-1.h5");
  expect_contains(refusal_of([&] {
                    read_tensor(shard, fc_weight({2, 3}));
                  }),
                  "has shape [3,2], not [2,3]");
  CheckpointTensor other = fc_weight();
  other.path = parameter_path("fc", "scale");
  expect_contains(refusal_of([&] { read_tensor(shard, other); }), "/model/fc/scale: is missing");

  // A file that is whole, but whose tensor is not the one that its checksum is of.
  const fs::path forged = folder_ / "forged.h5";
  {
    File file = File::create(forged);
    file.create_dataset("/model/fc/weight", {Element::float32, {3, 2}, {}, 0});
    file.set_attribute("/model/fc/weight", "xxh128", std::string(32, '0'));
    file.close();
  }
  expect_contains(refusal_of([&] { read_tensor(File::open(forged), fc_weight()); }),
                  "is damaged: its elements are not what was written");
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
