#include "app/plan_command.hpp"

#include <gtest/gtest.h>

#include "app/text_file.hpp"
#include "base/errors.hpp"
#include "nn/layer.hpp"
#include "support/files.hpp"

namespace dynpipe::app {
namespace {

const std::string k_models = std::string(DYNPIPE_SOURCE_DIR) + "/models/";
const std::string k_clusters = std::string(DYNPIPE_SOURCE_DIR) + "/data/clusters/";

std::string planned(std::vector<std::string> words) {
  words.insert(words.begin(), {"--model", k_models + "lenet5.json"});
  return make_and_describe_plan(*parse_plan_options(words));
}

std::string refusal(const std::vector<std::string>& words) {
  return testing::refusal_of([&] { planned(words); });
}

TEST(PlanCommandTest, WritesAPlanThatTrainTakes) {
  const testing::TemporaryFolder folder;
  const std::string out = (folder / "plan.json").string();
  const std::string text =
      planned({"--ranks", "3", "--schedule", "async", "--microbatches", "4", "--out", out});
  EXPECT_NE(text.find("simulated"), std::string::npos) << text;
  EXPECT_NE(text.find("bound: "), std::string::npos) << text;
  EXPECT_NE(text.find("limit: "), std::string::npos) << text;
  const std::string file = k_models + "lenet5.json";
  const model::Model model = model::parse_model(read_text_file(file), file, nn::layer_types());
  const plan::Plan plan = plan::parse_plan(read_text_file(out), out, model, 3);
  EXPECT_EQ(plan.microbatches, 4);
  EXPECT_EQ(plan.schedule, plan::Schedule::asynchronous);
}

TEST(PlanCommandTest, ComparesAllAlgorithms) {
  const std::string text =
      planned({"--cluster", k_clusters + "8x-25gbe.json", "--ranks", "4", "--compare"});
  for (const char* row :
       {"dynpipe", "- blind to delay", "- blind to communication", "- least warm-ups", "uniform",
        "flops", "pipedream", "gpipe", "dynpipe-authors", "data"}) {
    EXPECT_NE(text.find(std::string("\n") + row + " "), std::string::npos) << row << "\n" << text;
  }
}

TEST(PlanCommandTest, KeepsWhatItIsTold) {
  const std::string pinned = planned({"--ranks", "2", "--no-replicas", "--pin", "pool2:0"});
  EXPECT_NE(pinned.find("\n    1  "), std::string::npos) << pinned;
  EXPECT_NE(planned({"--ranks", "4", "--fix-stages", "1"}).find("0-3"), std::string::npos);
  EXPECT_NE(planned({"--ranks", "4", "--algorithm", "gpipe"}).find("\ngpipe, "), std::string::npos);
}

TEST(PlanCommandTest, RefusesByName) {
  EXPECT_EQ(refusal({}), "--ranks: is missing: say how many there are, or --cluster FILE");
  EXPECT_EQ(refusal({"--ranks", "2", "--memory-limit", "1KiB"}),
            refusal({"--ranks", "2", "--memory-limit", "2KiB"}));
  EXPECT_NE(refusal({"--ranks", "2", "--memory-limit", "1KiB"}).find("memory limit: no plan fits"),
            std::string::npos);
  EXPECT_EQ(refusal({"--ranks", "2", "--memory-limit", "7"}),
            "--memory-limit: '7' is not a size such as 800MiB or 1.5GiB");
  EXPECT_EQ(refusal({"--ranks", "2", "--pin", "nothing:0"}),
            "--pin: 'nothing' is not a layer of " + k_models + "lenet5.json");
  EXPECT_EQ(refusal({"--ranks", "2", "--pin", "conv1"}),
            "--pin: 'conv1' is not a layer and its stage, such as conv1:0");
  EXPECT_NE(refusal({"--ranks", "2", "--algorithm", "best"}).find("'best' is not known"),
            std::string::npos);
  EXPECT_EQ(refusal({"--ranks", "2", "--microbatches", "128"}),
            "--microbatches: must be at most the batch, and 4096, is 128");
  EXPECT_EQ(refusal({"--ranks", "9", "--cluster", k_clusters + "8x-25gbe.json"}),
            "--ranks: is 9, but " + k_clusters + "8x-25gbe.json has 8 ranks");
  EXPECT_EQ(refusal({"--ranks", "99", "--no-replicas"}).substr(0, 28),
            "replicas: 99 ranks for 12 la");
}

TEST(PlanCommandTest, ReadsSizes) {
  EXPECT_EQ(parse_bytes("1.5GiB", "x"), 1.5 * (1 << 30));
  EXPECT_EQ(parse_bytes("800MiB", "x"), 800.0 * (1 << 20));
  for (const char* bad : {"", "MiB", "1.5.2GiB", "-1MiB", "0MiB", "3MB", "1 2MiB"}) {
    EXPECT_THROW(parse_bytes(bad, "x"), base::InputError) << bad;
  }
}

}  // namespace
}  // namespace dynpipe::app
