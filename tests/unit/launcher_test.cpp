#include "probe/launcher.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace dynpipe::probe {
namespace {

std::string mismatch(int world_size, const std::map<std::string, std::string>& variables) {
  return launcher_mismatch(world_size, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(LauncherTest, OneProcessOfSeveralThatIsAloneIsAComplaint) {
  const std::string text = mismatch(1, {{"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_NE(std::string::npos, text.find("mpirun has started 4 processes")) << text;
  EXPECT_NE("", mismatch(1, {{"PMI_SIZE", "2"}}));
  EXPECT_NE("", mismatch(1, {{"SLURM_STEP_NUM_TASKS", "2"}}));
}

TEST(LauncherTest, RanksThatSeeOneAnotherAreNone) {
  EXPECT_EQ("", mismatch(2, {{"OMPI_COMM_WORLD_SIZE", "2"}}));
  EXPECT_EQ("", mismatch(2, {{"SLURM_STEP_NUM_TASKS", "4"}}));
}

TEST(LauncherTest, OneProcessThatWasMeantIsNone) {
  EXPECT_EQ("", mismatch(1, {}));
  EXPECT_EQ("", mismatch(1, {{"PMI_SIZE", "1"}}));
  EXPECT_EQ("", mismatch(1, {{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}));
  EXPECT_EQ("", mismatch(1, {{"PMI_SIZE", "several"}}));
}

}  // namespace
}  // namespace dynpipe::probe
