#include "data/picture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "data/resize.hpp"
#include "support/files.hpp"
#include "support/pictures.hpp"

namespace dynpipe::data {
namespace {

using testing::expect_contains;
using testing::refusal_of;
using testing::truncate;
using testing::waves;
using testing::write_bytes;
using testing::write_jpeg;
using testing::write_png;

class PictureTest : public ::testing::Test {
 protected:
  std::string refusal() const {
    const std::string text = refusal_of([&] { read_picture(path_); });
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 0);
    return text;
  }

 private:
  testing::TemporaryFolder folder_;

 protected:
  std::filesystem::path path_ = folder_ / "picture";
};

int largest_difference(const Picture& a, const Picture& b) {
  EXPECT_EQ(a.pixels.size(), b.pixels.size());
  int largest = 0;
  for (std::size_t i = 0; i < std::min(a.pixels.size(), b.pixels.size()); ++i) {
    largest = std::max(largest, std::abs(a.pixels[i] - b.pixels[i]));
  }
  return largest;
}

TEST_F(PictureTest, png_reads_back_exactly_as_colour) {
  const Picture colour = waves(5, 9, 3);
  write_png(path_, colour);
  const Picture read = read_picture(path_);
  EXPECT_EQ(read.height, 5);
  EXPECT_EQ(read.width, 9);
  EXPECT_EQ(read.channels, 3);
  EXPECT_EQ(read.pixels, colour.pixels);

  const Picture grey = waves(5, 9, 1);
  write_png(path_, grey);
  EXPECT_EQ(to_grey(read_picture(path_)).pixels, grey.pixels);
}

TEST_F(PictureTest, what_is_transparent_is_black) {
  write_png(path_, {1, 2, 4, {200, 100, 50, 255, 200, 100, 50, 0}});
  EXPECT_EQ(read_picture(path_).pixels, (std::vector<std::uint8_t>{200, 100, 50, 0, 0, 0}));
}

TEST_F(PictureTest, jpeg_reads_back_nearly) {
  for (int channels : {3, 1}) {
    const Picture written = waves(40, 33, channels);
    write_jpeg(path_, written);
    const Picture read = read_picture(path_);
    EXPECT_EQ(read.channels, 3);
    EXPECT_LE(largest_difference(channels == 3 ? read : to_grey(read), written), 8);
  }
}

TEST_F(PictureTest, truncated_files_are_refused_wherever_they_break_off) {
  for (bool jpeg : {true, false}) {
    for (double share : {0.999, 0.95, 0.7, 0.5, 0.3, 0.1, 0.02}) {
      if (jpeg) {
        write_jpeg(path_, waves(64, 64, 3));
      } else {
        write_png(path_, waves(64, 64, 3));
      }
      truncate(path_, share);
      expect_contains(refusal(), path_.string() + ": ");
    }
  }
}

TEST_F(PictureTest, other_files_are_refused) {
  EXPECT_EQ(refusal(), path_.string() + ": cannot be opened");
  write_bytes(path_, {});
  EXPECT_EQ(refusal(), path_.string() + ": is empty");
  write_bytes(path_, std::vector<std::uint8_t>{'G', 'I', 'F', '8', '9', 'a'});
  EXPECT_EQ(refusal(), path_.string() + ": is neither JPEG nor PNG");
}

TEST(Grey, is_the_weighted_sum_of_colours) {
  const Picture grey = to_grey({1, 4, 3, {255, 0, 0, 0, 255, 0, 0, 0, 255, 77, 77, 77}});
  EXPECT_EQ(grey.channels, 1);
  EXPECT_EQ(grey.pixels, (std::vector<std::uint8_t>{76, 150, 29, 77}));
}

/// A row of pixels scaled by the definition of the filter.
std::vector<double> scaled_row(const std::vector<double>& row, std::size_t width) {
  const double scale = static_cast<double>(row.size()) / static_cast<double>(width);
  std::vector<double> scaled;
  for (std::size_t i = 0; i < width; ++i) {
    double sum = 0, weights = 0;
    for (std::size_t j = 0; j < row.size(); ++j) {
      const double distance =
          std::abs(static_cast<double>(j) + 0.5 - (static_cast<double>(i) + 0.5) * scale) /
          std::max(scale, 1.0);
      const double weight = std::max(0.0, 1 - distance);
      sum += weight * row[j];
      weights += weight;
    }
    scaled.push_back(sum / weights);
  }
  return scaled;
}

TEST(Resize, is_the_triangle_filter_along_each_axis) {
  const Picture picture = waves(1, 29, 1);
  const std::vector<double> row(picture.pixels.begin(), picture.pixels.end());
  for (std::int64_t width : {1, 7, 14, 28, 30, 61}) {
    const std::vector<double> expected = scaled_row(row, static_cast<std::size_t>(width));
    const Picture wide = resize(picture, 1, width);
    const Picture high = resize({29, 1, 1, picture.pixels}, width, 1);
    ASSERT_EQ(wide.pixels.size(), expected.size());
    EXPECT_EQ(high.pixels, wide.pixels);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(wide.pixels[i], expected[i], 0.51);
    }
  }
}

TEST(Resize, leaves_what_is_flat_and_what_has_the_size) {
  const Picture flat{6, 4, 3, std::vector<std::uint8_t>(72, 93)};
  EXPECT_EQ(resize(flat, 17, 3).pixels, std::vector<std::uint8_t>(17 * 3 * 3, 93));
  const Picture picture = waves(6, 4, 3);
  EXPECT_EQ(resize(picture, 6, 4).pixels, picture.pixels);
}

TEST(Resize, a_fine_pattern_becomes_its_mean) {
  Picture stripes{8, 64, 1, {}};
  for (int i = 0; i < 8 * 64; ++i) stripes.pixels.push_back(i % 2 == 0 ? 0 : 200);
  for (std::uint8_t pixel : resize(stripes, 2, 8).pixels) EXPECT_NEAR(pixel, 100, 4);
}

TEST(ResizeAndCrop, keeps_the_shape_and_takes_the_middle) {
  Picture picture{2, 6, 1, {10, 20, 30, 40, 50, 60, 10, 20, 30, 40, 50, 60}};
  EXPECT_EQ(resize_and_crop(picture, 2, 2).pixels, (std::vector<std::uint8_t>{30, 40, 30, 40}));
  EXPECT_EQ(resize_and_crop({6, 2, 1, picture.pixels}, 2, 2).pixels,
            (std::vector<std::uint8_t>{50, 60, 10, 20}));
  const Picture large = resize_and_crop(waves(31, 47, 3), 8, 8);
  EXPECT_EQ(large.height, 8);
  EXPECT_EQ(large.width, 8);
  EXPECT_EQ(large.pixels.size(), 192U);
}

}  // namespace
}  // namespace dynpipe::data
