#include "data/hdf5_images.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "data/data_set.hpp"
#include "data/sample_order.hpp"
#include "io/hdf5.hpp"
#include "support/files.hpp"
#include "support/image_files.hpp"

namespace dynpipe::data {
namespace {

using testing::expect_contains;
using testing::Hdf5Images;
using testing::refusal_of;

constexpr std::size_t k_mebibyte = 1U << 20U;

class Hdf5ImagesTest : public ::testing::Test {
  testing::TemporaryFolder folder_;

 protected:
  std::filesystem::path path_ = folder_ / "set.h5";

  std::string refusal(std::size_t memory_bytes = k_mebibyte) const {
    const std::string text =
        refusal_of([&] { open_hdf5_images(path_, Split::train, memory_bytes); });
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 0);
    return text;
  }
  /// What reading a file says whose training split is sound but for what `change` writes itself.
  std::string refusal_of_file(const std::function<void(io::File&)>& write) const {
    io::File file = io::File::create(path_);
    write(file);
    file.close();
    return refusal();
  }
  std::string images(const std::string& problem) const {
    return path_.string() + ": /train/images: " + problem;
  }
  std::string labels(const std::string& problem) const {
    return path_.string() + ": /train/labels: " + problem;
  }
};

/// 4 MiB of images in chunks of a quarter of one: blocks of a quarter where 1 MiB may be held.
const Hdf5Images k_large{{4096, 1, 32, 32}, {256, 1, 32, 32}};

TEST_F(Hdf5ImagesTest, every_image_reads_back_whatever_the_order_and_the_memory) {
  for (const Hdf5Images& written :
       {Hdf5Images{}, Hdf5Images{{10, 2, 3, 4}, {3, 1, 2, 4}},
        Hdf5Images{{3000, 1, 30, 30}, {7, 1, 30, 30}}, Hdf5Images{{3000, 1, 30, 30}, {}}}) {
    written.write(path_);
    for (std::size_t memory : {std::size_t{0}, k_mebibyte, 64 * k_mebibyte}) {
      const auto source = open_hdf5_images(path_, Split::test, memory);
      EXPECT_EQ(source->size(), static_cast<std::int64_t>(written.shape[0]));
      EXPECT_TRUE(std::ranges::equal(source->facts().labels, written.labels()));
      EXPECT_EQ(source->facts().classes, 3);
      const std::size_t length = source->image_bytes();
      std::mt19937 random(2);
      for (int trial = 0; trial < 200; ++trial) {
        const std::uint64_t index = random() % written.shape[0];
        const auto pixels = source->pixels_of(static_cast<std::int64_t>(index));
        ASSERT_EQ(pixels.size(), length);
        for (std::size_t i : {std::size_t{0}, length / 2, length - 1}) {
          ASSERT_EQ(static_cast<std::uint8_t>(pixels[i]), written.pixel(index * length + i));
        }
      }
    }
  }
}

TEST_F(Hdf5ImagesTest, numbers_are_normalised_as_they_are) {
  Hdf5Images written;
  written.element = io::Element::float32;
  written.write(path_);
  const auto source = open_hdf5_images(path_, Split::train, k_mebibyte);
  EXPECT_EQ(source->facts().pixels, PixelType::float32);
  EXPECT_EQ(pixels_as<float>(source->pixels_of(1))[2], static_cast<float>(written.pixel(24 + 2)));

  const Normalisation found = measure_normalisation(*source);
  written.element = io::Element::uint8;
  const std::filesystem::path bytes = path_.string() + ".bytes";
  written.write(bytes);
  const Normalisation of_bytes =
      measure_normalisation(*open_hdf5_images(bytes, Split::train, k_mebibyte));
  std::vector<float> normalised(24);
  ImageNormaliser<float>(found).write(pixels_as<float>(source->pixels_of(3)), normalised);
  for (std::size_t c = 0; c < 2; ++c) {
    EXPECT_NEAR(found.mean[c], 255 * of_bytes.mean[c], 1e-9);
    EXPECT_NEAR(found.deviation[c], 255 * of_bytes.deviation[c], 1e-9);
    EXPECT_NEAR(normalised[12 * c],
                (written.pixel(72 + 12 * c) - found.mean[c]) / found.deviation[c], 1e-6);
  }
}

TEST_F(Hdf5ImagesTest, names_and_normalisation_are_taken_from_the_file) {
  {
    io::File file = io::File::create(path_);
    Hdf5Images{}.write(file, "/train");
    file.write_texts("/classes", std::vector<std::string>{"a", "b", "c", "d"});
    file.set_attribute("/train/images", "mean", std::vector<double>{0.5, 0.25});
    file.set_attribute("/train/images", "deviation", std::vector<double>{1, 2});
  }
  const auto source = open_hdf5_images(path_, Split::train, k_mebibyte);
  EXPECT_EQ(source->facts().class_names, (std::vector<std::string>{"a", "b", "c", "d"}));
  EXPECT_EQ(source->facts().classes, 4);
  EXPECT_EQ(source->facts().normalisation->mean, (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(source->facts().normalisation->deviation, (std::vector<double>{1, 2}));
}

TEST_F(Hdf5ImagesTest, every_departure_from_the_schema_names_file_and_dataset) {
  const auto arrays = [&](io::Element pixels, const io::Extent& shape, io::Element label,
                          const io::Extent& label_shape) {
    return refusal_of_file([&](io::File& file) {
      file.create_dataset("/train/images", {pixels, shape, {}, 0});
      file.create_dataset("/train/labels", {label, label_shape, {}, 0});
    });
  };
  using enum io::Element;
  EXPECT_EQ(arrays(float64, {4, 1, 2, 2}, int64, {4}),
            images("is float64; images are uint8 or float32"));
  EXPECT_EQ(arrays(uint8, {4, 2, 2}, int64, {4}),
            images("has shape [4,2,2]; images are [N,C,H,W]"));
  EXPECT_EQ(arrays(uint8, {0, 1, 2, 2}, int64, {0}), images("holds nothing: [0,1,2,2]"));
  EXPECT_EQ(arrays(uint8, {4, 1, 2, 2}, float32, {4}), labels("is float32; labels are integers"));
  EXPECT_EQ(arrays(uint8, {4, 1, 2, 2}, int64, {4, 1}), labels("has shape [4,1]; labels are [N]"));
  EXPECT_EQ(arrays(uint8, {4, 1, 2, 2}, uint8, {3}),
            labels("has 3 labels, but /train/images holds 4 images"));
  EXPECT_EQ(refusal_of_file([](io::File&) {}), images("is missing"));
  EXPECT_EQ(refusal_of_file([](io::File& file) {
              file.create_dataset("/train/images", {uint8, {4, 1, 2, 2}, {}, 0});
            }),
            labels("is missing"));
}

TEST_F(Hdf5ImagesTest, labels_and_names_that_do_not_fit_are_named) {
  const auto with = [&](std::int64_t label, std::size_t names) {
    return refusal_of_file([&](io::File& file) {
      file.create_dataset("/train/images", {io::Element::uint8, {2, 1, 2, 2}, {}, 0});
      file.create_dataset("/train/labels", {io::Element::int64, {2}, {}, 0})
          .write_all<std::int64_t>(std::vector<std::int64_t>{0, label});
      if (names > 0) file.write_texts("/classes", std::vector<std::string>(names, "x"));
    });
  };
  EXPECT_EQ(with(-1, 0), labels("[1] is -1; labels are 0 to 999999"));
  EXPECT_EQ(with(std::int64_t{1} << 40U, 0),
            labels("[1] is 1099511627776; labels are 0 to 999999"));
  EXPECT_EQ(with(2, 2), labels("has a label 2, but 2 classes are named"));
  EXPECT_EQ(with(2, 3), "");
}

TEST_F(Hdf5ImagesTest, normalisation_that_cannot_be_used_is_refused) {
  for (const std::vector<double>& deviation :
       {std::vector<double>{1, 0}, {1}, {1, std::numeric_limits<double>::quiet_NaN()}}) {
    expect_contains(refusal_of_file([&](io::File& file) {
                      Hdf5Images{}.write(file, "/train");
                      file.set_attribute("/train/images", "mean", std::vector<double>{0, 0});
                      file.set_attribute("/train/images", "deviation", deviation);
                    }),
                    images("attributes 'mean' and 'deviation' must be 2 finite numbers each"));
  }
}

TEST_F(Hdf5ImagesTest, a_number_that_is_none_is_named_by_its_image_when_it_is_read) {
  {
    io::File file = io::File::create(path_);
    std::vector<float> values(40, 1.0F);
    values[4 * 7 + 1] = std::numeric_limits<float>::quiet_NaN();
    file.create_dataset("/train/images", {io::Element::float32, {10, 1, 2, 2}, {}, 0})
        .write_all<float>(values);
    file.create_dataset("/train/labels", {io::Element::uint8, {10}, {}, 0});
  }
  const auto source = open_hdf5_images(path_, Split::train, k_mebibyte);
  EXPECT_EQ(refusal_of([&] { source->pixels_of(0); }),
            images("image 7 has a value that is not finite"));
}

TEST_F(Hdf5ImagesTest, chunks_that_do_not_fit_the_memory_are_refused) {
  Hdf5Images{{4096, 1, 32, 32}, {2048, 1, 32, 32}}.write(path_);
  EXPECT_EQ(refusal(3 * k_mebibyte), images("has chunks of 2048 images, 2.0 MiB: too much for a "
                                            "shuffle window of 3.0 MiB, which holds two"));
  EXPECT_EQ(refusal(4 * k_mebibyte), "");
  EXPECT_EQ(refusal(0), "");
}

TEST_F(Hdf5ImagesTest, an_epoch_in_windows_reads_each_block_once_within_its_memory) {
  k_large.write(path_);
  const auto source = open_hdf5_images(path_, Split::train, k_mebibyte);
  ASSERT_EQ(source->block_images(), 256);
  ASSERT_EQ(source->most_blocks(), 4);
  const ShuffleWindow window = shuffle_window(*source);
  EXPECT_EQ(window, (ShuffleWindow{256, 2}));
  SampleOrder order(4096, 64, 4, 5, window);
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    order.prepare(epoch);
    const std::int64_t before = source->blocks_read();
    for (std::int64_t k = 256 * epoch; k < 256 * (epoch + 1); ++k) {
      const BlockUse blocks = order.blocks(k);
      source->use_blocks(blocks.now, blocks.soon);
      for (std::uint64_t sample : order.microbatch(k)) {
        const auto pixels = source->pixels_of(static_cast<std::int64_t>(sample));
        ASSERT_EQ(static_cast<std::uint8_t>(pixels[5]), k_large.pixel(1024 * sample + 5));
      }
    }
    EXPECT_LE(source->blocks_read() - before, 16);
  }
}

TEST_F(Hdf5ImagesTest, a_set_that_fits_is_shuffled_whole_and_read_once) {
  k_large.write(path_);
  const auto source = open_hdf5_images(path_, Split::train, 4 * k_mebibyte);
  EXPECT_EQ(shuffle_window(*source), ShuffleWindow{});
  for (int pass = 0; pass < 2; ++pass) {
    for (std::int64_t i = 4095; i >= 0; --i) source->pixels_of(i);
  }
  EXPECT_EQ(source->blocks_read() * source->block_images(), 4096);
}

}  // namespace
}  // namespace dynpipe::data
