#include "app/weights_exchange.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "app/stored_weights.hpp"
#include "io/safetensors.hpp"
#include "support/checkpoint_files.hpp"
#include "support/files.hpp"

namespace dynpipe::app {
namespace {

namespace fs = std::filesystem;
using testing::expect_contains;
using testing::refusal_of;

class WeightsExchange : public ::testing::Test {
 protected:
  WeightsExchange() { std::ofstream(folder_ / "small.json") << testing::k_small_model; }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// A checkpoint as a safetensors file.
  io::SafetensorsFile exported() const {
    testing::write_small_checkpoint(folder_ / "run", 400);
    export_weights({path("run"), path("a.safetensors")});
    return io::SafetensorsFile(path("a.safetensors"));
  }
  std::string import(const std::string& name = "a.safetensors") const {
    return import_weights({path(name), path("small.json"), path("b.h5")});
  }
  /// Writes tensors of zeros, and returns why their import is refused.
  std::string refusal_to_import(const std::vector<io::SafetensorsPlan>& tensors) const {
    io::SafetensorsWriter writer(path("c.safetensors"), tensors, {});
    for (const io::SafetensorsPlan& tensor : tensors) {
      std::size_t elements = 1;
      for (std::uint64_t length : tensor.shape) elements *= length;
      if (tensor.dtype == "I64") {
        writer.write<std::int64_t>(std::vector<std::int64_t>(elements));
      } else {
        writer.write<float>(std::vector<float>(elements));
      }
    }
    writer.complete();
    return refusal_of([&] { import("c.safetensors"); });
  }

  testing::TemporaryFolder folder_;
  const std::vector<io::SafetensorsPlan> whole_ = {{"conv1.weight", "F32", {2, 1, 3, 3}},
                                                   {"conv1.bias", "F32", {2}},
                                                   {"bn1.weight", "F32", {2}},
                                                   {"bn1.bias", "F32", {2}},
                                                   {"bn1.running_mean", "F32", {2}},
                                                   {"bn1.running_var", "F32", {2}},
                                                   {"fc.weight", "F32", {3, 2}},
                                                   {"fc.bias", "F32", {3}}};
};

TEST_F(WeightsExchange, ACheckpointHasTheNamesOfPyTorch) {
  const io::SafetensorsFile file = exported();
  std::vector<std::string> names;
  for (const io::SafetensorsEntry& entry : file.tensors()) names.push_back(entry.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"bn1.num_batches_tracked", "conv1.bias", "conv1.weight",
                                      "bn1.bias", "bn1.running_mean", "bn1.running_var",
                                      "bn1.weight", "fc.bias", "fc.weight"}));
  EXPECT_EQ(file.find("bn1.num_batches_tracked")->dtype, "I64");
  EXPECT_EQ(file.find("bn1.num_batches_tracked")->shape, io::Extent{});
  EXPECT_EQ(testing::bytes_of(path("a.safetensors")).size() % 4, 0U);
  EXPECT_EQ(file.find("conv1.weight")->shape, (io::Extent{2, 1, 3, 3}));
  EXPECT_EQ(file.metadata().at("update"), "400");
}

TEST_F(WeightsExchange, WeightsComeBackTheSame) {
  const io::SafetensorsFile file = exported();
  expect_contains(import(), "small: 8 tensors with 37 values");
  export_weights({path("b.h5"), path("b.safetensors")});
  const io::SafetensorsFile again(path("b.safetensors"));
  ASSERT_EQ(again.tensors().size(), file.tensors().size());
  for (const io::SafetensorsEntry& entry : file.tensors()) {
    if (entry.dtype == "I64") continue;
    EXPECT_EQ(again.read(*again.find(entry.name)), file.read(entry)) << entry.name;
  }
}

TEST_F(WeightsExchange, WhatAModelLacksOrHasNotIsNamed) {
  EXPECT_EQ(refusal_to_import(whole_), "");
  auto tensors = whole_;
  tensors.pop_back();
  tensors.push_back({"head.bias", "F32", {3}});
  tensors.push_back({"bn1.num_batches_tracked", "I64", {}});
  std::string refusal = refusal_to_import(tensors);
  expect_contains(refusal, "lacks 1 of 8 tensors of " + path("small.json") + " (fc.bias)");
  expect_contains(refusal, "has 1 tensor that the model has not (head.bias)");
  tensors = whole_;
  tensors[6].shape = {2, 3};
  refusal = refusal_to_import(tensors);
  expect_contains(refusal, "c.safetensors: fc.weight: has shape [2,3]");
  expect_contains(refusal, "needs [3,2]");
  tensors = whole_;
  tensors[7].dtype = "I64";
  expect_contains(refusal_to_import(tensors), "fc.bias: is I64, not F64");
  tensors = whole_;
  for (io::SafetensorsPlan& tensor : tensors) tensor.name.insert(0, "module.");
  EXPECT_EQ(refusal_to_import(tensors), "");
}

TEST_F(WeightsExchange, WhatHoldsNoWeightsIsRefused) {
  const auto refused = [&](const std::string& source) {
    return refusal_of([&] { export_weights({source, path("a.safetensors")}); });
  };
  expect_contains(refused(path("none.h5")), "none.h5");
  expect_contains(refused(path("small.json")), "is not an HDF5 file");
  expect_contains(refused(folder_.path().string()), "was never completed");
  testing::write_small_checkpoint(folder_ / "run", 400);
  fs::resize_file(folder_ / "run" / "step-400" / "stage-1.h5", 99);
  expect_contains(refused(path("run")), "stage-1.h5: is damaged");
  expect_contains(refused((folder_ / "run" / "step-400" / "stage-0.h5").string()),
                  "is no file of weights");
}

TEST(WeightsExchangeOptions, AreRequired) {
  expect_contains(refusal_of([] { parse_export_options({"a"}); }), "--safetensors: is missing");
  expect_contains(refusal_of([] { parse_export_options({"--safetensors", "a"}); }), "SOURCE");
  expect_contains(refusal_of([] {
                    parse_import_weights_options({"a", "--out", "b"});
                  }),
                  "--model: is missing");
  EXPECT_EQ(parse_import_weights_options({"a", "--model", "m", "--out", "b"})->safetensors, "a");
  EXPECT_FALSE(parse_export_options({"--help"}));
  EXPECT_FALSE(parse_import_weights_options({"--help"}));
}

}  // namespace
}  // namespace dynpipe::app
