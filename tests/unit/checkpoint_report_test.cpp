#include "app/checkpoint_report.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "app/checkpoint_contents.hpp"
#include "io/checkpoint.hpp"
#include "support/checkpoint_files.hpp"
#include "support/files.hpp"

namespace dynpipe::app {
namespace {

namespace fs = std::filesystem;
using testing::bytes_of;
using testing::expect_contains;
using testing::refusal_of;
using testing::write_bytes;
using testing::write_small_checkpoint;

constexpr std::time_t k_written = 1751284800;  // 2025-06-30T12:00:00Z

class CheckpointReport : public ::testing::Test {
 protected:
  testing::TemporaryFolder folder_;
  fs::path step_ = write_small_checkpoint(folder_.path(), 400);
};

TEST_F(CheckpointReport, ListsWhatThereIs) {
  write_small_checkpoint(folder_.path(), 90);
  fs::create_directory_symlink("step-400", folder_ / "best");
  io::begin_checkpoint(folder_.path(), 500);
  const std::string text = describe_checkpoints(folder_.path().string(), k_written + 600);
  const auto line_of = [&](const std::string& name) {
    const std::size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  };
  expect_contains(line_of("step-400"), "400        1   0.3750    87.50 %");
  expect_contains(line_of("step-400"), "10 min  complete, best");
  EXPECT_TRUE(line_of("step-90").ends_with("complete")) << text;
  EXPECT_LT(text.find("step-90"), text.find("step-400"));
  expect_contains(text, "step-500.partial  never completed");

  fs::resize_file(folder_ / "step-90" / "stage-1.h5", 10);
  const std::string again = describe_checkpoints(folder_.path().string(), k_written);
  expect_contains(again, "step-90         damaged: stage-1.h5: is damaged: it has 10 bytes");
  expect_contains(refusal_of([&] { describe_checkpoints("/nowhere", 0); }), "/nowhere: ");
}

TEST_F(CheckpointReport, ShowsWhatOneHolds) {
  const std::string text = describe_checkpoint({folder_.path().string(), ""});
  for (const char* part :
       {"small (float32) after 400 updates, 1 whole epoch", "by dynpipe 0.1.0", "in 3 files",
        "async (2bw), 2 microbatches an update", "0,2       399 400         conv1 .. pool",
        "1         400             flatten .. fc", "[2,1,3,3]", "bn1.running_var", "400 steps",
        "momentum_buffer", "0.5000    75.00 %     0.2500    87.50 %", "--lr"}) {
    expect_contains(text, part);
  }
  EXPECT_EQ(text.find("--config"), std::string::npos);
  EXPECT_EQ(describe_checkpoint({step_.string(), "plan"}).find("{\"schedule\""), 0U);
  expect_contains(refusal_of([&] { describe_checkpoint({"/nowhere", ""}); }), "/nowhere");
}

TEST_F(CheckpointReport, VerifiesAllOfThem) {
  write_small_checkpoint(folder_.path(), 90);
  Verification found = verify_checkpoints(folder_.path().string());
  EXPECT_EQ(found.problem, "");
  expect_contains(found.text, step_.string() + ": whole: ");
  expect_contains(found.text, "in 3 files");

  fs::remove(folder_ / "step-90" / "stage-0.h5");
  std::vector<std::uint8_t> bytes = bytes_of(step_ / "stage-1.h5");
  bytes.back() ^= 1U;
  write_bytes(step_ / "stage-1.h5", bytes);
  found = verify_checkpoints(folder_.path().string());
  expect_contains(found.problem, "2 of 2 checkpoints damaged: step-90, step-400");
  expect_contains(found.text, "step-90/stage-0.h5: cannot be read");
  expect_contains(found.text, "step-400/stage-1.h5: is damaged");
}

TEST_F(CheckpointReport, FindsATensorThatIsNotWhatItsChecksumSays) {
  // As if it had been wrong before the digest of its file was taken.
  const fs::path shard = step_ / "stage-1.h5";
  std::vector<std::uint8_t> bytes = bytes_of(shard);
  float value = 0;
  io::File::open(shard).dataset("/model/fc/bias").read_rows<float>(0, 1, std::span(&value, 1));
  const auto* const wanted = reinterpret_cast<const std::uint8_t*>(&value);
  const auto at = std::search(bytes.begin(), bytes.end(), wanted, wanted + sizeof value);
  ASSERT_NE(at, bytes.end());
  *at ^= 1U;
  write_bytes(shard, bytes);
  io::FileDigests digests = io::Checkpoint(step_).digests();
  digests["stage-1.h5"].digest = io::digest_of_file(shard);
  const std::string text = io::to_text(digests);
  write_bytes(step_ / io::k_digests_file, std::vector<std::uint8_t>(text.begin(), text.end()));
  const std::vector<std::string> problems = problems_of(step_, true);
  ASSERT_EQ(problems.size(), 1U);
  expect_contains(problems[0], "/model/fc/bias: is damaged");
}

TEST_F(CheckpointReport, NamesTheFileThatIsDamagedWhateverTheDamage) {
  const std::vector<std::string> names{"index.h5", "stage-0.h5", "stage-1.h5", io::k_digests_file};
  std::vector<std::vector<std::uint8_t>> good;
  for (const std::string& name : names) good.push_back(bytes_of(step_ / name));
  std::mt19937_64 random(1);
  const auto below = [&](std::size_t most) { return static_cast<std::size_t>(random() % most); };
  for (int i = 0; i < 2000; ++i) {
    const std::size_t which = below(names.size());
    std::vector<std::uint8_t> bytes = good[which];
    switch (below(6)) {
      case 0:
        bytes.resize(below(bytes.size()));
        break;
      case 1:
        bytes = good[(which + 1) % 3];  // a whole file, but another one
        break;
      case 2:
        for (std::size_t k = below(64); k < bytes.size(); k += 64) bytes[k] = 0;
        break;
      case 3:
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size())), 0);
        break;
      default:
        bytes[below(bytes.size())] ^= static_cast<std::uint8_t>(1U << below(8));
    }
    if (bytes == good[which]) continue;
    write_bytes(step_ / names[which], bytes);
    const std::string refusal = refusal_of([&] {
      const io::Checkpoint checkpoint(step_);
      checkpoint.check_all();
      checkpoint.facts();
    });
    ASSERT_EQ(refusal.find(step_.string()), 0U) << i << ' ' << names[which] << ' ' << refusal;
    // A digest that is wrong accuses the file that it is of.
    if (names[which] != io::k_digests_file) {
      ASSERT_NE(refusal.find(names[which]), std::string::npos) << refusal;
    }
    if (i % 50 == 0) {
      ASSERT_EQ(problems_of(step_, true).front(), refusal);
    }
    write_bytes(step_ / names[which], good[which]);
  }
  EXPECT_TRUE(problems_of(step_, true).empty());
}

TEST(CheckpointReportOptionsTest, AskForAPlace) {
  EXPECT_FALSE(parse_checkpoint_report_options("ls", {"--help"}));
  EXPECT_EQ(parse_checkpoint_report_options("show", {"a", "--part", "plan"})->part, "plan");
  expect_contains(refusal_of([] { parse_checkpoint_report_options("ls", {}); }), "FOLDER");
  expect_contains(refusal_of([] {
                    parse_checkpoint_report_options("show", {"a", "--part", "x"});
                  }),
                  "--part");
  expect_contains(refusal_of([] {
                    parse_checkpoint_report_options("ls", {"a", "--part", "plan"});
                  }),
                  "--part");
}

}  // namespace
}  // namespace dynpipe::app
