// Measured profiles are kept from run to run.

#include "app/profile_cache.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "nn/layer.hpp"
#include "planner/workload.hpp"
#include "support/files.hpp"
#include "support/random_scenario.hpp"

namespace dynpipe::app {
namespace {

class ProfileCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / "dynpipe-profile-cache";
    std::filesystem::remove_all(folder_);
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(folder_);
  }

  model::Profile profile() const {
    model::Profile made = planner::profile_by_flops(model_, 1e9);
    made.build = "by hand";
    made.batch = 4;
    return made;
  }

  model::Model model_ = testing::plain_model();
  std::filesystem::path folder_;
  std::string problem_;
};

TEST_F(ProfileCacheTest, WhatIsKeptIsFoundUnderTheSameCircumstancesOnly) {
  const ProfileCache cache(model_, {"a", "b"});
  EXPECT_FALSE(cache.read(problem_));
  EXPECT_EQ(problem_, "");
  EXPECT_EQ(cache.keep(profile()), "");
  const auto found = ProfileCache(model_, {"a", "b"}).read(problem_);
  ASSERT_TRUE(found) << problem_;
  EXPECT_EQ(found->layers.size(), profile().layers.size());
  EXPECT_FALSE(ProfileCache(model_, {"ab", ""}).read(problem_));
}

TEST_F(ProfileCacheTest, ADamagedFileCountsAsNoneAndIsNamed) {
  const ProfileCache cache(model_, {"a"});
  EXPECT_EQ(cache.keep(profile()), "");
  std::ofstream(cache.file()) << "{\"model\": ";
  EXPECT_FALSE(cache.read(problem_));
  EXPECT_NE(problem_.find(cache.file()), std::string::npos) << problem_;
  EXPECT_EQ(cache.keep(profile()), "");
  EXPECT_TRUE(cache.read(problem_));
}

TEST_F(ProfileCacheTest, AFolderThatCannotBeMadeIsNoError) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ / "dynpipe") << "in the way";
  const ProfileCache cache(model_, {"a"});
  EXPECT_NE(cache.keep(profile()), "");
  EXPECT_FALSE(cache.read(problem_));
}

}  // namespace
}  // namespace dynpipe::app
