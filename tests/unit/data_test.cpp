#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/errors.hpp"
#include "data/idx.hpp"
#include "data/image_set.hpp"
#include "data/normalisation.hpp"
#include "data/sample_order.hpp"
#include "support/files.hpp"

namespace dynpipe::data {
namespace {

namespace fs = std::filesystem;
using testing::bytes_of;
using testing::expect_contains;
using testing::refusal_of;
using testing::write_bytes;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint32_t k_images_magic = 0x803;
constexpr std::uint32_t k_labels_magic = 0x801;

Bytes idx_bytes(const std::vector<std::uint32_t>& words, const Bytes& contents) {
  Bytes bytes;
  for (std::uint32_t word : words) {
    for (int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(word >> shift));
  }
  bytes.insert(bytes.end(), contents.begin(), contents.end());
  return bytes;
}

void write_gz(const fs::path& path, std::span<const std::uint8_t> bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())),
            static_cast<int>(bytes.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

/// Six images of 4x5 pixels with labels 0..3, in a folder that is gone after the test.
class IdxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::mt19937 random(7);
    for (std::uint8_t& pixel : pixels_) pixel = static_cast<std::uint8_t>(random());
  }

  fs::path path(const std::string& name) const { return folder_ / name; }
  Bytes good_images() const { return idx_bytes({k_images_magic, 6, 4, 5}, pixels_); }
  Bytes good_labels() const { return idx_bytes({k_labels_magic, 6}, labels_); }

  /// What reading these bytes as a pair of plain files says, and that inspecting them agrees.
  std::string refusal(const Bytes& images, const Bytes& labels, bool headers_tell = true) const {
    const IdxPair pair{path("images"), path("labels")};
    write_bytes(pair.images, images);
    write_bytes(pair.labels, labels);
    const std::string by_reading = refusal_of([&] { read_idx_pair(pair); });
    const std::string by_inspecting = refusal_of([&] { inspect_idx_pair(pair); });
    EXPECT_EQ(by_inspecting, headers_tell ? by_reading : "");
    EXPECT_EQ(std::count(by_reading.begin(), by_reading.end(), '\n'), 0);
    return by_reading;
  }

  testing::TemporaryFolder temporary_;
  fs::path folder_ = temporary_.path();
  Bytes pixels_ = Bytes(6 * 4 * 5);
  Bytes labels_ = {3, 0, 1, 2, 2, 1};
};

TEST_F(IdxTest, plain_and_compressed_files_read_back_what_was_written) {
  write_bytes(path("train-images-idx3-ubyte"), good_images());
  write_bytes(path("train-labels-idx1-ubyte"), good_labels());
  write_gz(path("t10k-images-idx3-ubyte.gz"), good_images());
  write_gz(path("t10k-labels-idx1-ubyte.gz"), good_labels());
  for (Split split : {Split::train, Split::test}) {
    const ImageSet set = load_image_set(folder_, split);
    EXPECT_EQ(set.image, (base::Shape{1, 4, 5}));
    EXPECT_EQ(set.size(), 6);
    EXPECT_EQ(set.classes, 4);
    EXPECT_EQ(set.pixels, pixels_);
    EXPECT_TRUE(std::equal(labels_.begin(), labels_.end(), set.labels.begin(), set.labels.end()));
    EXPECT_TRUE(std::ranges::equal(set.pixels_of(2), std::span(pixels_).subspan(40, 20)));

    const ImageSetHeader header = inspect_idx_pair(find_idx_pair(folder_, split));
    EXPECT_EQ(header.count, 6);
    EXPECT_EQ(header.image, set.image);
  }
}

TEST_F(IdxTest, sets_longer_than_a_piece_read_back) {
  Bytes pixels(5'000'003);
  std::mt19937 random(3);
  for (std::uint8_t& pixel : pixels) pixel = static_cast<std::uint8_t>(random());
  write_gz(path("images"), idx_bytes({k_images_magic, 1, 1, 5'000'003}, pixels));
  write_bytes(path("labels"), idx_bytes({k_labels_magic, 1}, {9}));
  EXPECT_EQ(read_idx_pair({path("images"), path("labels")}).pixels, pixels);
}

TEST_F(IdxTest, missing_folder_and_files_are_named) {
  const std::string no_folder = refusal_of([&] { load_image_set(path("nowhere"), Split::train); });
  expect_contains(no_folder, path("nowhere").string());
  expect_contains(no_folder, "train-images-idx3-ubyte");

  write_gz(path("t10k-images-idx3-ubyte.gz"), good_images());
  const std::string no_labels = refusal_of([&] { load_image_set(folder_, Split::test); });
  expect_contains(no_labels, folder_.string() + ": t10k-labels-idx1-ubyte: ");
  expect_contains(no_labels, "t10k-labels-idx1-ubyte.gz");

  const std::string no_file = refusal_of([&] { read_idx_pair({path("a"), path("b")}); });
  EXPECT_EQ(no_file, path("a").string() + ": file: does not exist");
  const std::string a_folder = refusal_of([&] { read_idx_pair({folder_, path("b")}); });
  expect_contains(a_folder, "not a regular file");
}

TEST_F(IdxTest, every_defect_of_a_header_names_file_and_field) {
  const Bytes images = good_images();
  const Bytes labels = good_labels();
  const std::string of_images = path("images").string() + ": ";
  const std::string of_labels = path("labels").string() + ": ";

  expect_contains(refusal(labels, images), of_images + "magic number: ");
  expect_contains(refusal(labels, images), "swapped");
  expect_contains(refusal(images, images), of_labels + "magic number: ");
  expect_contains(refusal(images, images), "swapped");
  expect_contains(refusal(idx_bytes({0xcafe0803, 6, 4, 5}, pixels_), labels),
                  of_images + "magic number: 0xcafe0803");
  expect_contains(refusal(idx_bytes({k_images_magic, 6}, {}), labels), of_images + "header: ");
  expect_contains(refusal({}, labels), of_images + "header: ");
  expect_contains(refusal(images, Bytes(labels.begin(), labels.begin() + 7)),
                  of_labels + "header: ");
  expect_contains(refusal(idx_bytes({k_images_magic, 0, 4, 5}, {}), labels),
                  of_images + "number of images: is 0");
  expect_contains(refusal(idx_bytes({k_images_magic, 6, 0, 5}, {}), labels), of_images + "rows: ");
  expect_contains(refusal(idx_bytes({k_images_magic, 6, 4, 0}, {}), labels),
                  of_images + "columns: ");
  expect_contains(
      refusal(images, idx_bytes({k_labels_magic, 5}, Bytes(5))),
      of_labels + "number of labels: is 5, but " + path("images").string() + " holds 6 images");
}

TEST_F(IdxTest, contents_shorter_or_longer_than_announced_are_refused) {
  Bytes images = good_images();
  const Bytes labels = good_labels();
  images.push_back(0);
  expect_contains(refusal(images, labels, false), path("images").string() + ": pixels: ");
  images.resize(images.size() - 2);
  expect_contains(refusal(images, labels), "truncated");
  expect_contains(refusal(good_images(), Bytes(labels.begin(), labels.end() - 1)),
                  path("labels").string() + ": number of labels: ");

  // Compressed, the size of the file does not tell.
  write_gz(path("images"), images);
  write_bytes(path("labels"), labels);
  const IdxPair pair{path("images"), path("labels")};
  expect_contains(refusal_of([&] { read_idx_pair(pair); }), ": pixels: the file ends after 119 of");

  write_gz(path("images"), good_images());
  Bytes compressed = bytes_of(path("images"));
  compressed.resize(compressed.size() - 3);
  write_bytes(path("images"), compressed);
  expect_contains(refusal_of([&] { read_idx_pair(pair); }), ": compressed data: breaks off");

  write_gz(path("images"), good_images());
  compressed = bytes_of(path("images"));
  compressed[compressed.size() - 6] ^= 1U;  // the checksum
  write_bytes(path("images"), compressed);
  expect_contains(refusal_of([&] { read_idx_pair(pair); }), ": compressed data: is damaged");
}

TEST_F(IdxTest, hostile_dimensions_claim_no_memory) {
  const std::uint32_t most = 0xffffffff;
  for (const Bytes& images :
       {idx_bytes({k_images_magic, most, most, most}, pixels_),
        idx_bytes({k_images_magic, 6, most, most}, pixels_),
        idx_bytes({k_images_magic, 0x80000000, 0x80000000, 4}, pixels_),  // 2^64: wraps to 0
        idx_bytes({k_images_magic, 6, 70'000, 70'000}, pixels_)}) {
    expect_contains(refusal(images, good_labels()), "images: number of images: ");
    write_gz(path("images"), images);
    expect_contains(refusal_of([&] {
                      read_idx_pair({path("images"), path("labels")});
                    }),
                    "images: number of images: ");
  }
}

TEST_F(IdxTest, damaged_files_are_refused_or_valid_but_never_fatal) {
  write_gz(path("good-images"), good_images());
  write_gz(path("good-labels"), good_labels());
  const Bytes good[] = {bytes_of(path("good-images")), bytes_of(path("good-labels"))};
  std::mt19937 random(11);
  int refused = 0;
  for (int trial = 0; trial < 500; ++trial) {
    Bytes files[] = {good[0], good[1]};
    Bytes& victim = files[random() % 2];
    if (trial % 2 == 0) {
      victim.resize(random() % victim.size());
    } else {
      victim[random() % victim.size()] ^= static_cast<std::uint8_t>(1U << random() % 8);
    }
    write_bytes(path("images"), files[0]);
    write_bytes(path("labels"), files[1]);
    try {
      const ImageSet set = read_idx_pair({path("images"), path("labels")});
      EXPECT_EQ(set.pixels, pixels_);
      EXPECT_EQ(set.size(), 6);
    } catch (const base::InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 400);
}

TEST_F(IdxTest, labels_out_of_range_are_named) {
  write_bytes(path("images"), good_images());
  write_bytes(path("labels"), good_labels());
  const ImageSet set = read_idx_pair({path("images"), path("labels")});
  EXPECT_EQ(refusal_of([&] { check_labels(set.labels, 4, "f"); }), "");
  expect_contains(refusal_of([&] { check_labels(set.labels, 3, "f"); }), "f: labels[0]: is 3");
  expect_contains(refusal_of([&] { check_labels(set.labels, 1, "f"); }), "f: labels[0]: is 3");
}

TEST(Normalisation, is_the_mean_and_deviation_of_each_channel) {
  ImageSet set{.image = {2, 1, 3},
               .pixels = {0, 51, 255, 7, 7, 7, 102, 0, 204, 7, 7, 7},
               .labels = {0, 1},
               .classes = 2};
  const Normalisation found = measure_normalisation(set);
  const std::vector<double> values = {0, 0.2, 1, 0.4, 0, 0.8};
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / 6;
  double variance = 0;
  for (double value : values) variance += (value - mean) * (value - mean) / 6;
  EXPECT_DOUBLE_EQ(found.mean[0], mean);
  EXPECT_DOUBLE_EQ(found.deviation[0], std::sqrt(variance));
  EXPECT_DOUBLE_EQ(found.mean[1], 7.0 / 255);
  EXPECT_DOUBLE_EQ(found.deviation[1], 1.0 / 255);  // the floor

  Bytes image = {0, 51, 255, 7, 8, 7};
  std::vector<double> wide(6);
  std::vector<float> narrow(6);
  ImageNormaliser<double>(found).write(image, wide);
  ImageNormaliser<float>(found).write(image, narrow);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(wide[i], (image[i] / 255.0 - mean) / std::sqrt(variance));
  }
  EXPECT_EQ(wide[3], 0.0);
  EXPECT_NEAR(wide[4], 1.0, 1e-12);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(narrow[i], static_cast<float>(wide[i]));
}

TEST(Normalisation, of_a_normalised_set_is_zero_and_one) {
  ImageSet set{.image = {1, 20, 20}, .pixels = Bytes(40'000), .labels = {}, .classes = 1};
  set.labels.resize(100);
  std::mt19937 random(5);
  for (std::uint8_t& pixel : set.pixels) pixel = static_cast<std::uint8_t>(250 + random() % 3);
  const ImageNormaliser<double> normaliser(measure_normalisation(set));
  std::vector<double> values(set.pixels.size());
  normaliser.write(set.pixels, values);
  const double n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  const double power = std::inner_product(values.begin(), values.end(), values.begin(), 0.0) / n;
  EXPECT_NEAR(mean, 0.0, 1e-9);
  // The deviation of three neighbouring grey levels is below the floor of one.
  EXPECT_NEAR(power, 2.0 / 3.0, 0.02);
}

/// All samples of an epoch, microbatch after microbatch, with the sizes checked on the way.
std::vector<std::uint64_t> samples_of_epoch(SampleOrder& order, std::int64_t epoch) {
  order.prepare(epoch);
  std::vector<std::uint64_t> all;
  const std::int64_t parts = order.microbatches();
  for (std::int64_t i = 0; i < order.groups_per_epoch(); ++i) {
    const std::int64_t group = epoch * order.groups_per_epoch() + i;
    EXPECT_EQ(order.epoch_of_group(group), epoch);
    std::int64_t size = 0;
    for (std::int64_t part = 0; part < parts; ++part) {
      const auto samples = order.microbatch(group * parts + part);
      EXPECT_EQ(std::ssize(samples), order.microbatch_size(group * parts + part));
      EXPECT_EQ(std::ssize(samples),
                order.group_size(group) / parts + (part < order.group_size(group) % parts));
      size += std::ssize(samples);
      all.insert(all.end(), samples.begin(), samples.end());
    }
    EXPECT_EQ(size, order.group_size(group));
  }
  return all;
}

TEST(SampleOrder, every_epoch_visits_each_sample_once) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const auto samples = static_cast<std::int64_t>(1 + random() % 300);
    const auto batch = static_cast<std::int64_t>(1 + random() % 80);
    const auto microbatches = static_cast<std::int64_t>(1 + random() % 12);
    SampleOrder order(samples, batch, microbatches, random());
    EXPECT_EQ(order.groups_per_epoch(), (samples + batch - 1) / batch);
    for (std::int64_t epoch : {0, 1, 7}) {
      std::vector<std::uint64_t> visited = samples_of_epoch(order, epoch);
      std::sort(visited.begin(), visited.end());
      std::vector<std::uint64_t> each_once(static_cast<std::size_t>(samples));
      std::iota(each_once.begin(), each_once.end(), std::uint64_t{0});
      EXPECT_EQ(visited, each_once);
    }
  }
}

TEST(SampleOrder, depends_on_seed_and_epoch_alone) {
  SampleOrder order(1000, 64, 8, 42);
  SampleOrder other_division(1000, 50, 3, 42);
  SampleOrder other_seed(1000, 64, 8, 43);
  const auto first = samples_of_epoch(order, 3);
  EXPECT_NE(samples_of_epoch(order, 4), first);
  EXPECT_EQ(samples_of_epoch(order, 3), first);
  EXPECT_EQ(samples_of_epoch(other_division, 3), first);
  EXPECT_NE(samples_of_epoch(other_seed, 3), first);
}

TEST(SampleOrder, permutations_are_uniform) {
  std::vector<std::vector<std::uint64_t>> seen;
  constexpr int k_epochs = 6000;
  SampleOrder order(3, 3, 1, 9);
  for (int epoch = 0; epoch < k_epochs; ++epoch) seen.push_back(samples_of_epoch(order, epoch));
  std::sort(seen.begin(), seen.end());
  const std::set<std::vector<std::uint64_t>> kinds(seen.begin(), seen.end());
  EXPECT_EQ(kinds.size(), 6U);
  for (const auto& kind : kinds) {
    // 1000 expected; five standard deviations are 144.
    EXPECT_NEAR(static_cast<double>(std::count(seen.begin(), seen.end(), kind)), 1000.0, 144.0);
  }
}

TEST(SampleOrder, refuses_an_epoch_that_is_not_prepared_and_empty_orders) {
  SampleOrder order(10, 5, 2, 1);
  EXPECT_THROW(order.microbatch(0), std::logic_error);
  order.prepare(0);
  EXPECT_EQ(order.microbatch(0).size(), 3U);
  EXPECT_THROW(order.microbatch(4), std::logic_error);
  for (auto [samples, batch, parts] : {std::tuple{0, 1, 1}, {1, 0, 1}, {1, 1, 0}}) {
    EXPECT_THROW(SampleOrder(samples, batch, parts, 1), std::invalid_argument);
  }
}

/// Which block each of an epoch's samples is in.
std::vector<std::uint64_t> blocks_of(const std::vector<std::uint64_t>& samples,
                                     std::int64_t block_samples) {
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t sample : samples) blocks.push_back(sample / block_samples);
  return blocks;
}

TEST(SampleOrder, windows_visit_each_sample_once_and_mix_so_many_blocks) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 100; ++trial) {
    const auto samples = static_cast<std::int64_t>(1 + random() % 300);
    const auto batch = static_cast<std::int64_t>(1 + random() % 80);
    const auto microbatches = static_cast<std::int64_t>(1 + random() % 12);
    const ShuffleWindow window{static_cast<std::int64_t>(1 + random() % 20),
                               static_cast<std::int64_t>(1 + random() % 5)};
    SampleOrder order(samples, batch, microbatches, random(), window);
    for (std::int64_t epoch : {0, 1, 7}) {
      const std::vector<std::uint64_t> visited = samples_of_epoch(order, epoch);
      std::vector<std::uint64_t> sorted = visited;
      std::sort(sorted.begin(), sorted.end());
      std::vector<std::uint64_t> each_once(static_cast<std::size_t>(samples));
      std::iota(each_once.begin(), each_once.end(), std::uint64_t{0});
      EXPECT_EQ(sorted, each_once);

      // Blocks come and go in windows: a block that is left is never come back to.
      std::set<std::uint64_t> open, closed;
      for (std::uint64_t block : blocks_of(visited, window.block_samples)) {
        EXPECT_FALSE(closed.contains(block));
        if (open.contains(block)) continue;
        if (std::ssize(open) == window.blocks) {
          closed.merge(open);
          open.clear();
        }
        open.insert(block);
      }
    }
  }
}

TEST(SampleOrder, windows_depend_on_seed_epoch_and_window_alone) {
  const ShuffleWindow window{8, 4};
  SampleOrder order(1000, 64, 8, 42, window);
  SampleOrder other_division(1000, 50, 3, 42, window);
  SampleOrder other_seed(1000, 64, 8, 43, window);
  SampleOrder other_window(1000, 64, 8, 42, {8, 5});
  const auto first = samples_of_epoch(order, 3);
  EXPECT_NE(samples_of_epoch(order, 4), first);
  EXPECT_EQ(samples_of_epoch(order, 3), first);
  EXPECT_EQ(samples_of_epoch(other_division, 3), first);
  EXPECT_NE(samples_of_epoch(other_seed, 3), first);
  EXPECT_NE(samples_of_epoch(other_window, 3), first);
}

TEST(SampleOrder, a_window_of_all_blocks_is_no_window) {
  SampleOrder whole(1000, 64, 8, 42);
  SampleOrder one_window(1000, 64, 8, 42, {100, 10});
  EXPECT_EQ(samples_of_epoch(one_window, 2), samples_of_epoch(whole, 2));
  EXPECT_TRUE(one_window.blocks(2 * 16 * 8).now.empty());
}

TEST(SampleOrder, the_next_window_is_due_by_the_end_of_the_one_before) {
  SampleOrder order(1000, 64, 8, 42, {8, 4});
  order.prepare(0);
  std::set<std::uint64_t> read;
  for (std::int64_t k = 0; k < 16 * 8; ++k) {
    const BlockUse blocks = order.blocks(k);
    EXPECT_LE(blocks.now.size(), 4U);
    EXPECT_LE(blocks.soon.size(), 4U);
    for (std::uint64_t sample : order.microbatch(k)) {
      const std::uint64_t block = sample / 8;
      const bool known =
          std::ranges::count(blocks.now, block) + std::ranges::count(blocks.soon, block) > 0;
      EXPECT_TRUE(known) << "a microbatch reaches no further than the next window";
      // The first window is read on demand.
      EXPECT_TRUE(k < 8 || read.contains(block)) << k;
    }
    read.insert(blocks.soon.begin(), blocks.soon.end());
    if (k < 8) read.insert(blocks.now.begin(), blocks.now.end());
  }
  EXPECT_THROW(order.blocks(16 * 8), std::logic_error);
}

TEST(EvaluationOrder, goes_through_the_samples_once_and_in_order) {
  for (std::int64_t samples : {0, 1, 9, 10, 11, 20}) {
    const EvaluationOrder order(samples, 10);
    std::int64_t next = 0;
    for (std::int64_t i = 0; i < order.microbatches(); ++i) {
      const auto microbatch = order.microbatch(i);
      EXPECT_EQ(std::ssize(microbatch), std::min<std::int64_t>(10, samples - next));
      for (std::uint64_t sample : microbatch) EXPECT_EQ(sample, static_cast<std::uint64_t>(next++));
    }
    EXPECT_EQ(next, samples);
  }
}

}  // namespace
}  // namespace dynpipe::data
