#include "io/safetensors.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/errors.hpp"
#include "support/files.hpp"

namespace dynpipe::io {
namespace {

using testing::bytes_of;
using testing::expect_contains;
using testing::refusal_of;
using testing::write_bytes;

class SafetensorsTest : public ::testing::Test {
 protected:
  /// A file of this header and so many bytes of data: 0, 1, 2, ...
  void write(const std::string& header, std::size_t data_bytes) const {
    std::vector<std::uint8_t> bytes;
    for (int i = 0; i < 8; ++i) {
      bytes.push_back(static_cast<std::uint8_t>(header.size() >> (8 * i)));
    }
    bytes.insert(bytes.end(), header.begin(), header.end());
    for (std::size_t i = 0; i < data_bytes; ++i) bytes.push_back(static_cast<std::uint8_t>(i));
    write_bytes(file_, bytes);
  }
  /// A tensor `a` that is said to be so.
  void write_tensor(const std::string& dtype, const std::string& shape, const std::string& offsets,
                    std::size_t data_bytes) const {
    write(R"({"a": {"dtype": ")" + dtype + R"(", "shape": )" + shape + R"(, "data_offsets": )" +
              offsets + "}}",
          data_bytes);
  }
  void expect_refused(const std::string& part) const {
    const std::string refusal = refusal_of([&] { const SafetensorsFile file(file_); });
    expect_contains(refusal, file_.string());
    expect_contains(refusal, part);
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path file_ = folder_ / "a.safetensors";
};

TEST_F(SafetensorsTest, tensors_read_back_as_they_were_written) {
  const std::vector<std::int64_t> count{7};
  const std::vector<double> wide{0.1, -1e300};
  const std::vector<float> narrow{1, 2, 3, 4, 5, 0.1F};
  {
    SafetensorsWriter writer(
        file_,
        {{"n", "I64", {}}, {"w", "F64", {2}}, {"x.weight", "F32", {2, 3}}, {"e", "F32", {0}}},
        {{"format", "pt"}});
    writer.write<std::int64_t>(count);
    writer.write<double>(wide);
    writer.write<float>(narrow);
    writer.write<float>({});
    EXPECT_FALSE(std::filesystem::exists(file_));
    writer.complete();
  }
  const SafetensorsFile file(file_);
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"format", "pt"}}));
  ASSERT_EQ(file.tensors().size(), 4U);
  EXPECT_EQ(file.find("x.weight")->shape, (Extent{2, 3}));
  EXPECT_EQ(file.read(*file.find("x.weight")), std::vector<double>(narrow.begin(), narrow.end()));
  EXPECT_EQ(file.read(*file.find("w")), wide);
  EXPECT_TRUE(file.read(*file.find("e")).empty());
  EXPECT_EQ(file.find("x"), nullptr);
  expect_contains(refusal_of([&] { file.read(*file.find("n")); }), "n: is I64, not F64");
}

TEST_F(SafetensorsTest, data_begin_at_a_multiple_of_eight_bytes) {
  for (const char* name : {"a", "ab", "abc", "abcd"}) {
    SafetensorsWriter writer(file_, {{name, "F32", {1}}}, {});
    writer.write<float>(std::vector<float>{1});
    writer.complete();
    EXPECT_EQ(bytes_of(file_).size() % 8, 4U) << name;
  }
}

TEST_F(SafetensorsTest, a_file_that_was_not_completed_leaves_nothing) {
  { const SafetensorsWriter writer(file_, {{"a", "F32", {1}}}, {}); }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_THROW(SafetensorsWriter(folder_ / "no" / "b", {}, {}), base::RunError);
}

TEST_F(SafetensorsTest, half_precision_is_exact) {
  // Data: pairs of bytes (0,1), (2,3), ...; these are of the values below.
  const std::string header = R"({"h": {"dtype": "F16", "shape": [8], "data_offsets": [0, 16]},)"
                             R"( "b": {"dtype": "BF16", "shape": [3], "data_offsets": [16, 22]}})";
  write(header, 22);
  std::vector<std::uint8_t> bytes = bytes_of(file_);
  const std::vector<std::uint16_t> values{0x3c00, 0xc000, 0x0001, 0x8000, 0x7bff, 0x7c00,
                                          0xfc00, 0x7e00, 0x3f80, 0xc049, 0x0001};
  for (std::size_t i = 0; i < values.size(); ++i) {
    bytes[bytes.size() - 22 + 2 * i] = static_cast<std::uint8_t>(values[i] & 0xff);
    bytes[bytes.size() - 21 + 2 * i] = static_cast<std::uint8_t>(values[i] >> 8);
  }
  write_bytes(file_, bytes);
  const SafetensorsFile file(file_);
  const std::vector<double> half = file.read(*file.find("h"));
  EXPECT_EQ(half[0], 1);
  EXPECT_EQ(half[1], -2);
  EXPECT_EQ(half[2], std::ldexp(1, -24));
  EXPECT_TRUE(half[3] == 0 && std::signbit(half[3]));
  EXPECT_EQ(half[4], 65504);
  EXPECT_EQ(half[5], std::numeric_limits<double>::infinity());
  EXPECT_EQ(half[6], -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(half[7]));
  EXPECT_EQ(file.read(*file.find("b")), (std::vector<double>{1, -3.140625, std::ldexp(1, -133)}));
}

TEST_F(SafetensorsTest, what_is_no_such_file_is_refused) {
  expect_refused("cannot be read");
  write_bytes(file_, {});
  expect_refused("has 0 bytes");
  write_bytes(file_, std::vector<std::uint8_t>(100, 0xff));
  expect_refused("a header of 18446744073709551615 bytes");
  write_bytes(file_, std::vector<std::uint8_t>(8, 0));
  expect_refused("no JSON object");
  write(" {}", 0);
  expect_refused("no JSON object");
  write("{", 0);
  expect_refused("not JSON");
  write("{}", 1);
  expect_refused("1 bytes that no tensor has");
  write(std::string(300, '{'), 0);
  expect_refused("not JSON");
  write(R"({"__metadata__": {"a": 1}})", 0);
  expect_refused("__metadata__: a: must be a string");
  expect_contains(refusal_of([&] { const SafetensorsFile folder(folder_.path()); }),
                  "not a regular file");
}

TEST_F(SafetensorsTest, a_tensor_that_is_not_as_it_should_be_is_named) {
  write_tensor("F32", "[2]", "[0, 8]", 8);
  EXPECT_EQ(refusal_of([&] { const SafetensorsFile file(file_); }), "");
  const auto refused = [&](const char* dtype, const char* shape, const char* offsets,
                           std::size_t bytes, const char* why) {
    write_tensor(dtype, shape, offsets, bytes);
    expect_refused(": a: ");
    expect_refused(why);
  };
  refused("F33", "[2]", "[0, 8]", 8, "dtype: is not known: \"F33\"");
  refused("F32", "[3]", "[0, 8]", 8, "have room for 8 bytes, dtype and shape need 12");
  refused("F32", "[-2]", "[0, 8]", 8, "shape: must be at least 0");
  refused("F32", "2", "[0, 8]", 8, "shape: must be an array");
  refused("F32", "[2.0]", "[0, 8]", 8, "shape: must be a whole number");
  refused("F32", "[9007199254740992, 9007199254740992]", "[0, 8]", 8, "need far more");
  refused("F32", "[2]", "[8, 0]", 8, "data_offsets: must be two");
  refused("F32", "[2]", "[0, 4, 8]", 8, "data_offsets: must be two");
  refused("F32", "[2]", "[0, 8]", 7, "end at byte 8 of 7: the file is cut off");
  refused("F32", "[2]", "[1, 9]", 9, "leave 1 bytes before them");
  write(R"({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},)"
        R"( "b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}})",
        3);
  expect_refused("b: data_offsets: overlap");
  write(R"({"a": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]},)"
        R"( "a": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]}})",
        1);
  expect_refused("key \"a\" twice");
  write(R"({"a": {"dtype": "U8", "shape": [], "data_offsets": [0, 1], "size": 1}})", 1);
  expect_refused("unknown field \"size\"");
  write(R"({"a\n": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]}})", 1);
  expect_refused("is no name of a tensor");
}

TEST_F(SafetensorsTest, any_damage_gives_a_file_that_can_be_read_or_a_refusal) {
  write(R"({"__metadata__": {"format": "pt"},)"
        R"( "a.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},)"
        R"( "b": {"dtype": "F16", "shape": [4], "data_offsets": [24, 32]},)"
        R"( "c": {"dtype": "I64", "shape": [], "data_offsets": [32, 40]}})",
        40);
  const std::vector<std::uint8_t> good = bytes_of(file_);
  std::mt19937_64 random(1);
  const auto below = [&](std::size_t most) { return static_cast<std::size_t>(random() % most); };
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::uint8_t> bytes = good;
    for (std::size_t change = 0; change <= below(3); ++change) {
      const std::size_t at = below(i % 2 == 0 ? 9 : bytes.size());
      switch (below(4)) {
        case 0:
          bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ (1U << below(8)));
          break;
        case 1:
          bytes[at] = static_cast<std::uint8_t>(random());
          break;
        case 2:
          bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size())));
          break;
        default:
          bytes.resize(1 + below(bytes.size()));
      }
      if (bytes.size() < 9) break;
    }
    write_bytes(file_, bytes);
    const std::string refusal = refusal_of([&] {
      const SafetensorsFile file(file_);
      for (const SafetensorsEntry& entry : file.tensors()) {
        if (entry.dtype == "F32" || entry.dtype == "F16") file.read(entry);
      }
    });
    if (refusal.empty()) continue;
    ++refused;
    ASSERT_EQ(refusal.find(file_.string()), 0U) << refusal;
    ASSERT_EQ(refusal.find('\n'), std::string::npos) << refusal;
  }
  EXPECT_GT(refused, 1500);
}

}  // namespace
}  // namespace dynpipe::io
