#include "model/profile.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/errors.hpp"
#include "nn/layer.hpp"

namespace dynpipe::model {
namespace {

Model tiny() {
  return parse_model(R"({"name": "tiny", "input": [4], "loss": "softmax_cross_entropy", "layers": [
      {"name": "fc1", "type": "linear", "out_features": 5}, {"name": "relu", "type": "relu"},
      {"name": "fc2", "type": "linear", "out_features": 3}]})",
                     "tiny.json", nn::layer_types());
}

constexpr std::string_view k_good = R"({
  "model": "tiny",
  "device": "cpu",
  "build": "onednn 2.6",
  "batch": 64,
  "samples": [4, 8, 16],
  "layers": [
    {"name": "fc1",
     "forward_us": [10, 18, 40], "backward_input_us": [0, 0, 0], "backward_weight_us": [9, 17, 33],
     "update_us": 2.5, "output_bytes": 20, "kept_bytes": 20, "parameter_bytes": 100, "state_bytes": 5000000000},
    {"name": "relu", "joined": true,
     "forward_us": [0, 0, 0], "backward_input_us": [1, 2, 4], "backward_weight_us": [0, 0, 0],
     "update_us": 0, "output_bytes": 20, "kept_bytes": 0, "parameter_bytes": 0, "state_bytes": 0},
    {"name": "fc2",
     "forward_us": [7.25, 8, 9], "backward_input_us": [3, 4, 5], "backward_weight_us": [3, 4, 5],
     "update_us": 2, "output_bytes": 12, "kept_bytes": 12, "parameter_bytes": 72, "state_bytes": 72}
  ],
  "links": [
    {"from": 0, "to": 1, "latency_us": 1.5, "bytes_per_s": 3e+09, "both_ways_bytes_per_s": 2e+09, "overlap": 0.25}
  ],
  "slowdowns": [0.99, 1.01]
})";

std::string with(std::string_view part, std::string_view replacement) {
  std::string text(k_good);
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), replacement);
}

void expect_refused(const std::string& text, const std::string& place, const std::string& words) {
  try {
    parse_profile(text, "p.json", tiny());
    ADD_FAILURE() << "accepted: " << text;
  } catch (const base::InputError& error) {
    const std::string message = error.what();
    EXPECT_EQ(message.rfind("p.json: " + place, 0), 0u) << message;
    EXPECT_NE(message.find(words), std::string::npos) << message;
  }
}

Profile good() {
  return parse_profile(k_good, "p.json", tiny());
}

TEST(ProfileTest, IsReadWholly) {
  const Profile profile = good();
  EXPECT_EQ(profile.model, "tiny");
  EXPECT_EQ(profile.device, "cpu");
  EXPECT_EQ(profile.build, "onednn 2.6");
  EXPECT_EQ(profile.batch, 64);
  EXPECT_EQ(profile.samples, (std::vector<std::int64_t>{4, 8, 16}));
  ASSERT_EQ(profile.layers.size(), 3u);
  const LayerProfile& first = profile.layers[0];
  EXPECT_EQ(first.name, "fc1");
  EXPECT_FALSE(first.joined);
  EXPECT_TRUE(profile.layers[1].joined);
  EXPECT_DOUBLE_EQ(first.times[2].forward_s, 40e-6);
  EXPECT_DOUBLE_EQ(first.times[1].backward_weight_s, 17e-6);
  EXPECT_DOUBLE_EQ(profile.layers[2].times[0].backward_input_s, 3e-6);
  EXPECT_DOUBLE_EQ(first.update_s, 2.5e-6);
  EXPECT_EQ(first.output_bytes, 20);
  EXPECT_EQ(profile.layers[2].kept_bytes, 12);
  EXPECT_EQ(first.parameter_bytes, 100);
  EXPECT_EQ(first.state_bytes, 5'000'000'000);
  ASSERT_EQ(profile.links.size(), 1u);
  const LinkProfile& link = profile.links[0];
  EXPECT_EQ(link.to, 1);
  EXPECT_DOUBLE_EQ(link.latency_s, 1.5e-6);
  EXPECT_DOUBLE_EQ(link.bytes_per_s, 3e9);
  EXPECT_DOUBLE_EQ(link.both_ways_bytes_per_s, 2e9);
  EXPECT_DOUBLE_EQ(link.overlap, 0.25);
  EXPECT_EQ(profile.slowdowns, (std::vector<double>{0.99, 1.01}));
}

TEST(ProfileTest, ReadsWhatItWrites) {
  const std::string written = to_json(good());
  EXPECT_EQ(to_json(parse_profile(written, "p.json", tiny())), written);
  EXPECT_NE(written.find(R"("state_bytes": 5000000000)"), std::string::npos);
  EXPECT_NE(written.find(R"("joined": true)"), std::string::npos);
}

TEST(ProfileTest, WithoutLinksIsOfOneRank) {
  Profile profile = good();
  profile.links.clear();
  profile.slowdowns.clear();
  const Profile read = parse_profile(to_json(profile), "p.json", tiny());
  EXPECT_TRUE(read.links.empty());
  EXPECT_TRUE(read.slowdowns.empty());
}

TEST(ProfileTest, TimesLieOnTheLineThroughTheNearestTwoSizes) {
  const Profile profile = good();
  EXPECT_DOUBLE_EQ(profile.times(0, 4).forward_s, 10e-6);
  EXPECT_DOUBLE_EQ(profile.times(0, 16).forward_s, 40e-6);
  EXPECT_DOUBLE_EQ(profile.times(0, 6).forward_s, 14e-6);
  EXPECT_DOUBLE_EQ(profile.times(0, 12).forward_s, 29e-6);
  EXPECT_DOUBLE_EQ(profile.times(0, 2).forward_s, 6e-6);
  EXPECT_DOUBLE_EQ(profile.times(0, 32).forward_s, 84e-6);
  EXPECT_DOUBLE_EQ(profile.times(1, 12).backward_input_s, 3e-6);
  EXPECT_DOUBLE_EQ(profile.times(0, 32).backward_weight_s, 65e-6);
}

TEST(ProfileTest, TimesAreNeverBelowZeroAndNothingForNoSamples) {
  Profile profile = good();
  profile.layers[0].times[0].forward_s = 1e-6;
  EXPECT_EQ(profile.times(0, 1).forward_s, 0);
  EXPECT_EQ(profile.times(2, 0).forward_s, 0);
}

TEST(ProfileTest, TimesAreInProportionWhereOneSizeWasMeasured) {
  Profile profile = good();
  profile.samples = {4};
  for (LayerProfile& layer : profile.layers) layer.times.resize(1);
  EXPECT_DOUBLE_EQ(profile.times(0, 8).forward_s, 20e-6);
  EXPECT_DOUBLE_EQ(profile.times(2, 2).backward_weight_s, 1.5e-6);
}

TEST(ProfileTest, RefusesWhatIsNotJson) {
  expect_refused("", "line 1, column 1", "not JSON");
  expect_refused("[]", "", "must be an object");
  expect_refused(std::string(k_good.substr(0, 200)), "line 9", "not JSON");
  expect_refused(with("18,", "1e999,"), "", "unusable JSON");
}

TEST(ProfileTest, RefusesAnotherModel) {
  expect_refused(with("tiny", "small"), "model", "is 'small', but the model is 'tiny'");
  expect_refused(with(R"("name": "fc1")", R"("name": "conv")"), "layers[0] 'fc1': name",
                 "is 'conv', but layer 0 of tiny.json is 'fc1'");
}

TEST(ProfileTest, RefusesLayersThatAreMissingOrTooMany) {
  Profile profile = good();
  profile.layers.pop_back();
  expect_refused(to_json(profile), "layers", "ends before 'fc2': has 2 of the 3 layers");
  profile = good();
  profile.layers.push_back(profile.layers.back());
  expect_refused(to_json(profile), "layers", "has 4 layers, tiny.json has 3");
  profile = good();
  profile.layers.erase(profile.layers.begin() + 1);
  expect_refused(to_json(profile), "layers[1] 'relu': name", "is 'fc2'");
}

TEST(ProfileTest, RefusesTimesThatCannotBe) {
  expect_refused(with("[10, 18, 40]", "[10, -18, 40]"), "layers[0] 'fc1': forward_us",
                 "at least 0");
  expect_refused(with("[10, 18, 40]", "[10, 18]"), "layers[0] 'fc1': forward_us",
                 "must have 3 numbers, has 2");
  expect_refused(with("[10, 18, 40]", "[10, \"18\", 40]"), "layers[0] 'fc1': forward_us",
                 "must be a number");
  expect_refused(with("[10, 18, 40]", "10"), "layers[0] 'fc1': forward_us", "must be an array");
  expect_refused(with("[10, 18, 40]", "[10, 0, 40]"), "layers[0] 'fc1': forward_us",
                 "is 0, but the layer has weights");
  expect_refused(with("[9, 17, 33]", "[9, 17, 0]"), "layers[0] 'fc1': backward_weight_us",
                 "is 0, but the layer has weights");
  expect_refused(with(R"("update_us": 2.5)", R"("update_us": -1)"), "layers[0] 'fc1': update_us",
                 "at least 0");
}

TEST(ProfileTest, RefusesSizesThatDoNotRise) {
  expect_refused(with("[4, 8, 16]", "[4, 16, 8]"), "samples", "8 follows 16");
  expect_refused(with("[4, 8, 16]", "[4, 4, 16]"), "samples", "4 follows 4");
  expect_refused(with("[4, 8, 16]", "[0, 8, 16]"), "samples", "at least 1");
  expect_refused(with("[4, 8, 16]", "[]"), "samples", "must have a microbatch size");
  expect_refused(with("[4, 8, 16]", "[4, 8.5, 16]"), "samples", "whole number");
}

TEST(ProfileTest, RefusesFieldsThatAreMissingOrUnknown) {
  for (const char* field : {"model", "device", "build", "batch", "samples", "layers"}) {
    expect_refused(with(std::string("\"") + field + "\"", "\"other\""), field, "is missing");
  }
  for (const char* field : {"forward_us", "backward_input_us", "backward_weight_us", "update_us",
                            "output_bytes", "kept_bytes", "parameter_bytes", "state_bytes"}) {
    expect_refused(with(std::string("\"") + field + "\"", "\"other\""),
                   std::string("layers[0] 'fc1': ") + field, "is missing");
  }
  for (const char* field :
       {"from", "to", "latency_us", "bytes_per_s", "both_ways_bytes_per_s", "overlap"}) {
    expect_refused(with(std::string("\"") + field + "\": ", "\"other\": "),
                   std::string("links[0]: ") + field, "is missing");
  }
  expect_refused(with(R"("batch")", R"("colour": 1, "batch")"), "", "unknown field \"colour\"");
  expect_refused(with(R"("update_us")", R"("speed": 1, "update_us")"), "layers[0] 'fc1'",
                 "unknown field \"speed\"");
}

TEST(ProfileTest, RefusesNumbersOfBytesThatCannotBe) {
  expect_refused(with(R"("output_bytes": 20)", R"("output_bytes": 0)"),
                 "layers[0] 'fc1': output_bytes", "at least 1");
  expect_refused(with(R"("kept_bytes": 20)", R"("kept_bytes": -1)"), "layers[0] 'fc1': kept_bytes",
                 "at least 0");
  expect_refused(with("5000000000", "10000000000000000"), "layers[0] 'fc1': state_bytes",
                 "at most");
  expect_refused(with(R"("parameter_bytes": 100)", R"("parameter_bytes": 1e2)"),
                 "layers[0] 'fc1': parameter_bytes", "whole number");
}

TEST(ProfileTest, RefusesLinksThatCannotBe) {
  expect_refused(with(R"("to": 1)", R"("to": 0)"), "links[0]: to", "comes from");
  expect_refused(with(R"("from": 0)", R"("from": -1)"), "links[0]: from", "at least 0");
  expect_refused(with(R"("bytes_per_s": 3e+09)", R"("bytes_per_s": 0)"), "links[0]: bytes_per_s",
                 "must be at least");
  expect_refused(with(R"("overlap": 0.25)", R"("overlap": 1.5)"), "links[0]: overlap", "below");
  expect_refused(with(R"("latency_us": 1.5)", R"("latency_us": -1)"), "links[0]: latency_us",
                 "at least 0");
}

TEST(ProfileTest, RefusesSlowdownsThatCannotBe) {
  expect_refused(with("[0.99, 1.01]", "[0.99, 0]"), "slowdowns", "must be at least");
  expect_refused(with("[0.99, 1.01]", "1"), "slowdowns", "must be an array");
}

}  // namespace
}  // namespace dynpipe::model
