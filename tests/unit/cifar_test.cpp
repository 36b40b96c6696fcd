#include "data/cifar.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "data/data_set.hpp"
#include "support/files.hpp"

namespace dynpipe::data {
namespace {

using testing::expect_contains;
using testing::refusal_of;
using testing::write_bytes;
using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t k_pixels = 3072;

/// A record whose pixels are `first`, `first` + 1, ..., modulo 256.
void append(Bytes& file, const Bytes& labels, std::uint8_t first) {
  file.insert(file.end(), labels.begin(), labels.end());
  for (std::size_t i = 0; i < k_pixels; ++i) file.push_back(static_cast<std::uint8_t>(first + i));
}

class CifarTest : public ::testing::Test {
 protected:
  /// Five training files of 2 records, labels 0 1 2 ... 9; a test file of one.
  void write_ten() const {
    for (int f = 0; f < 5; ++f) {
      Bytes bytes;
      for (int i = 2 * f; i < 2 * f + 2; ++i) {
        append(bytes, {static_cast<std::uint8_t>(i)}, static_cast<std::uint8_t>(i));
      }
      write_bytes(batch(f + 1), bytes);
    }
    Bytes test;
    append(test, {4}, 9);
    write_bytes(folder_ / "test_batch.bin", test);
  }
  void write_hundred(std::uint8_t coarse, std::uint8_t fine) const {
    Bytes bytes;
    append(bytes, {19, 99}, 1);
    append(bytes, {coarse, fine}, 2);
    write_bytes(folder_ / "train.bin", bytes);
    write_bytes(folder_ / "test.bin", bytes);
  }
  std::filesystem::path batch(int number) const {
    return folder_ / ("data_batch_" + std::to_string(number) + ".bin");
  }
  std::string refusal(Split split) const {
    const std::string reading = refusal_of([&] { open_images(folder_.path(), split, 0); });
    EXPECT_EQ(std::count(reading.begin(), reading.end(), '\n'), 0);
    return reading;
  }
  testing::TemporaryFolder folder_;
};

TEST_F(CifarTest, ten_reads_its_five_files_in_order) {
  write_ten();
  const auto train = open_images(folder_.path(), Split::train, 0);
  EXPECT_EQ(train->facts().format, "CIFAR-10");
  EXPECT_EQ(train->facts().image, (base::Shape{3, 32, 32}));
  EXPECT_EQ(train->facts().labels, (std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(train->facts().classes, 10);
  EXPECT_TRUE(train->facts().class_names.empty());
  for (std::int64_t i = 0; i < 10; ++i) {
    const auto pixels = pixels_as<std::uint8_t>(train->pixels_of(i));
    EXPECT_EQ(pixels[0], i);
    EXPECT_EQ(pixels[k_pixels - 1], (i + 255) % 256);
  }
  const SplitFacts facts = inspect_images(folder_.path(), Split::test, 0);
  EXPECT_EQ(facts.header.count, 1);
  EXPECT_EQ(facts.header.image, (base::Shape{3, 32, 32}));
  EXPECT_EQ(facts.shuffle, ShuffleWindow{});
}

TEST_F(CifarTest, hundred_has_the_fine_labels) {
  write_hundred(0, 7);
  const auto test = open_images(folder_.path(), Split::test, 0);
  EXPECT_EQ(test->facts().format, "CIFAR-100");
  EXPECT_EQ(test->facts().labels, (std::vector<std::int32_t>{99, 7}));
  EXPECT_EQ(test->facts().classes, 100);
  EXPECT_EQ(pixels_as<std::uint8_t>(test->pixels_of(1))[0], 2);
}

TEST_F(CifarTest, classes_have_the_names_beside_the_files) {
  write_ten();
  std::ofstream(folder_ / "batches.meta.txt") << "a\nb\r\nc\nd\ne\nf\ng\nh\ni\nj\n\n";
  const auto names = open_images(folder_.path(), Split::test, 0)->facts().class_names;
  ASSERT_EQ(names.size(), 10U);
  EXPECT_EQ(names[1], "b");
  std::ofstream(folder_ / "batches.meta.txt") << "a\n";
  EXPECT_TRUE(open_images(folder_.path(), Split::test, 0)->facts().class_names.empty());
}

TEST_F(CifarTest, a_file_of_another_size_is_named_by_reading_and_by_inspecting) {
  for (std::uintmax_t size :
       {std::uintmax_t{0}, std::uintmax_t{2 * 3073 - 1}, std::uintmax_t{3074}}) {
    write_ten();
    std::filesystem::resize_file(batch(3), size);
    const std::string where = batch(3).string() + ": size: " + std::to_string(size) + " bytes are";
    expect_contains(refusal(Split::train), where);
    expect_contains(refusal_of([&] { inspect_images(folder_.path(), Split::train, 0); }), where);
    EXPECT_EQ(refusal(Split::test), "");
  }
}

TEST_F(CifarTest, a_missing_file_is_named) {
  write_ten();
  std::filesystem::remove(batch(5));
  EXPECT_EQ(refusal(Split::train), batch(5).string() + ": file: does not exist");
  std::filesystem::remove(folder_ / "test_batch.bin");
  EXPECT_EQ(refusal(Split::test), (folder_ / "test_batch.bin").string() + ": file: does not exist");
}

TEST_F(CifarTest, labels_out_of_range_are_named_by_file_and_record) {
  write_ten();
  Bytes bytes;
  append(bytes, {9}, 0);
  append(bytes, {10}, 0);
  write_bytes(batch(2), bytes);
  EXPECT_EQ(refusal(Split::train),
            batch(2).string() + ": labels[1]: is 10, but CIFAR-10 has 10 such classes (0 to 9)");
  for (const auto& path : std::filesystem::directory_iterator(folder_.path())) {
    std::filesystem::remove(path);
  }
  write_hundred(20, 0);
  expect_contains(refusal(Split::train), "train.bin: labels[1]: is 20, but CIFAR-100 has 20 such");
  write_hundred(0, 100);
  expect_contains(refusal(Split::train),
                  "train.bin: labels[1]: is 100, but CIFAR-100 has 100 such");
}

TEST_F(CifarTest, a_folder_without_a_data_set_says_what_was_looked_for) {
  const std::string nothing = refusal(Split::train);
  expect_contains(nothing, folder_.path().string() + ": folder: holds no known data set");
  expect_contains(nothing, "train-images-idx3-ubyte");
  expect_contains(nothing, "data_batch_1.bin");
  write_bytes(folder_ / "images.h5", {});
  expect_contains(refusal(Split::train), "images.h5 may be one");
}

}  // namespace
}  // namespace dynpipe::data
