#include "app/profile_cache.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "nn/layer.hpp"
#include "support/files.hpp"

namespace dynpipe::app {
namespace {

class ProfileCacheTest : public ::testing::Test {
 protected:
  ProfileCacheTest() {
    profile.model = "tiny";
    profile.device = key.device = "cpu";
    profile.build = key.build = "maths 1";
    profile.batch = key.batch = 8;
    profile.samples = key.samples = {4};
    key.model_text = "text";
    profile.layers = {{"fc", false, {{1e-6, 2e-6, 3e-6}}, 1e-6, 12, 12, 60, 60}};
  }

  std::optional<model::Profile> find(const ProfileCache::Key& wanted) {
    return cache.find(wanted, model, [this](const std::string& text) { warnings.push_back(text); });
  }
  void keep() {
    cache.keep(key, profile, [this](const std::string& text) { warnings.push_back(text); });
  }

  model::Model model = model::parse_model(
      R"({"name": "tiny", "input": [4], "loss": "softmax_cross_entropy", "layers": [
          {"name": "fc", "type": "linear", "out_features": 3}]})",
      "tiny.json", nn::layer_types());
  testing::TemporaryFolder place;  // tests of this kind may run side by side
  std::string folder = (place / "inner").string();
  ProfileCache cache{folder};
  ProfileCache::Key key;
  model::Profile profile;
  std::vector<std::string> warnings;
};

TEST_F(ProfileCacheTest, FindsWhatWasKept) {
  EXPECT_FALSE(find(key));
  keep();
  const auto found = find(key);
  ASSERT_TRUE(found);
  EXPECT_EQ(model::to_json(*found), model::to_json(profile));
  EXPECT_TRUE(warnings.empty());
}

TEST_F(ProfileCacheTest, FindsNothingUnderAnyOtherKey) {
  keep();
  const auto differs = [&](auto change) {
    ProfileCache::Key other = key;
    change(other);
    return !find(other);
  };
  EXPECT_TRUE(differs([](auto& k) { k.model_text += " "; }));
  EXPECT_TRUE(differs([](auto& k) { k.device = "gpu"; }));
  EXPECT_TRUE(differs([](auto& k) { k.build = "maths 2"; }));
  EXPECT_TRUE(differs([](auto& k) { k.batch = 16; }));
  EXPECT_TRUE(differs([](auto& k) { k.samples = {4, 8}; }));
  EXPECT_TRUE(differs([](auto& k) { k.ranks = 2; }));
  EXPECT_TRUE(differs([](auto& k) { k.ranks_a_host = 2; }));
  EXPECT_TRUE(differs([](auto& k) { k.rest = "adam"; }));
}

TEST_F(ProfileCacheTest, WarnsOfDamageAndFindsNothing) {
  keep();
  std::ofstream(cache.file(key, "tiny")) << "{\"model\": \"ti";
  EXPECT_FALSE(find(key));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("not JSON"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("measured again"), std::string::npos) << warnings[0];
}

TEST_F(ProfileCacheTest, WarnsOfAnothersProfile) {
  profile.device = "another";
  keep();
  EXPECT_FALSE(find(key));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("another profile"), std::string::npos) << warnings[0];
}

TEST_F(ProfileCacheTest, WarnsWhereItCannotKeep) {
  const ProfileCache nowhere("/proc/no/such/folder");
  nowhere.keep(key, profile, [this](const std::string& text) { warnings.push_back(text); });
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("not kept"), std::string::npos) << warnings[0];
}

TEST_F(ProfileCacheTest, KeepsNothingWithoutAFolder) {
  const ProfileCache none("");
  none.keep(key, profile, [this](const std::string& text) { warnings.push_back(text); });
  EXPECT_FALSE(none.find(key, model, [](const std::string&) {}));
  EXPECT_TRUE(warnings.empty());
}

}  // namespace
}  // namespace dynpipe::app
