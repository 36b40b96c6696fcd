#include "app/prefetched_feed.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "app/image_feed.hpp"
#include "base/errors.hpp"
#include "data/data_set.hpp"
#include "support/files.hpp"
#include "support/image_files.hpp"

namespace dynpipe::app {
namespace {

/// Microbatch k has k % 4 samples of two numbers; every number is k. Counts what is being written.
class NumberFeed final : public pipeline::Feed {
 public:
  std::int64_t size(std::int64_t k) const override { return k % 4; }
  std::int64_t group_size(std::int64_t) const override { return 6; }
  std::span<const std::uint64_t> samples(std::int64_t) const override { return {}; }
  void write_input(std::int64_t k, const tensor::Tensor& x) const override {
    if (k == fails_at) throw base::InputError("the file", "image 3", "is unreadable");
    for (std::int64_t i = 0; i < x.elements(); ++i) x.as<float>()[i] = static_cast<float>(k);
    ++written;
  }
  void write_labels(std::int64_t, const tensor::Tensor&) const override { ++labelled; }

  std::int64_t fails_at = -1;
  mutable std::atomic<int> written = 0, labelled = 0;
};

/// As a rank waits, but for the deadline.
void wait(const std::function<bool()>& done, const std::function<std::string()>& what) {
  for (int look = 0; !done(); ++look) {
    if (look > 100'000) throw std::runtime_error("waited too long for " + what());
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

PrefetchedFeed::Setup setup_for(std::int64_t microbatches, std::int64_t depth) {
  PrefetchedFeed::Setup setup{{}, {1, 1, 2}, tensor::DType::float32, 3, depth, wait};
  for (std::int64_t k = 0; k < microbatches; ++k) setup.microbatches.push_back(2 * k);
  return setup;
}

/// What is written for microbatch k.
std::vector<float> input_of(const pipeline::Feed& feed, std::int64_t k) {
  std::vector<float> values(static_cast<std::size_t>(feed.size(k)) * 2, -1.0F);
  feed.write_input(k, {reinterpret_cast<std::byte*>(values.data()),
                       tensor::DType::float32,
                       tensor::Layout::plain,
                       {feed.size(k), 1, 1, 2}});
  return values;
}

TEST(PrefetchedFeed, hands_out_what_the_feed_writes_in_order) {
  for (std::int64_t depth : {1, 2, 5, 100}) {
    const NumberFeed feed;
    const PrefetchedFeed ahead(feed, setup_for(50, depth));
    for (std::int64_t k = 0; k < 100; k += 2) {
      EXPECT_EQ(input_of(ahead, k),
                std::vector<float>(static_cast<std::size_t>(k % 4) * 2, static_cast<float>(k)));
    }
    EXPECT_EQ(feed.written, 50);
    ahead.write_labels(0, {});
    EXPECT_EQ(feed.labelled, 1);
    EXPECT_EQ(ahead.group_size(0), 6);
  }
}

TEST(PrefetchedFeed, is_no_further_ahead_than_its_ring) {
  const NumberFeed feed;
  const PrefetchedFeed ahead(feed, setup_for(50, 3));
  for (std::int64_t k = 0; k < 40; k += 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_LE(feed.written, k / 2 + 3);
    input_of(ahead, k);
  }
}

TEST(PrefetchedFeed, ends_at_once_whatever_is_left) {
  const NumberFeed feed;
  { const PrefetchedFeed nothing_asked(feed, setup_for(50, 3)); }
  { const PrefetchedFeed nothing_to_do(feed, setup_for(0, 3)); }
  const PrefetchedFeed some_asked(feed, setup_for(50, 3));
  input_of(some_asked, 0);
}

TEST(PrefetchedFeed, an_error_arrives_with_its_microbatch_and_again) {
  NumberFeed feed;
  feed.fails_at = 14;
  const PrefetchedFeed ahead(feed, setup_for(50, 4));
  for (std::int64_t k = 0; k < 14; k += 2) input_of(ahead, k);
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(testing::refusal_of([&] { input_of(ahead, 14); }),
              "the file: image 3: is unreadable");
  }
}

TEST(PrefetchedFeed, another_order_than_announced_is_a_mistake) {
  const NumberFeed feed;
  const PrefetchedFeed ahead(feed, setup_for(3, 4));
  EXPECT_THROW(input_of(ahead, 2), std::logic_error);
}

TEST(PrefetchedFeed, a_wait_says_what_for) {
  const NumberFeed feed;
  PrefetchedFeed::Setup setup = setup_for(3, 4);
  setup.wait = [](const auto&, const auto& what) { throw std::runtime_error(what()); };
  const PrefetchedFeed ahead(feed, std::move(setup));
  try {
    input_of(ahead, 0);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the images of microbatch 0 to be read");
  }
}

/// 4 MiB of images in blocks of a quarter of one.
const testing::Hdf5Images k_large{{4096, 1, 32, 32}, {256, 1, 32, 32}};

/// The first epoch's inputs, microbatches of 64, of a file read within a mebibyte.
std::vector<std::vector<float>> epoch_of(const std::filesystem::path& file, bool ahead) {
  auto source = data::open_images(file, data::Split::train, 1U << 20U);
  data::SampleOrder order(4096, 256, 4, 9, data::shuffle_window(*source));
  order.prepare(0);
  const NormalisedImages images(std::move(source), {{0.5}, {0.25}});
  const TrainingFeed feed(order, images, {{true, 4}, 9});
  std::vector<std::vector<float>> inputs;
  std::unique_ptr<PrefetchedFeed> prefetched;
  if (ahead) {
    PrefetchedFeed::Setup setup{{}, {1, 32, 32}, tensor::DType::float32, 64, 3, wait};
    for (std::int64_t k = 0; k < 64; ++k) setup.microbatches.push_back(k);
    prefetched = std::make_unique<PrefetchedFeed>(feed, std::move(setup));
  }
  for (std::int64_t k = 0; k < 64; ++k) {
    std::vector<float> x(64 * 1024);
    const tensor::Tensor view{reinterpret_cast<std::byte*>(x.data()),
                              tensor::DType::float32,
                              tensor::Layout::plain,
                              {64, 1, 32, 32}};
    ahead ? prefetched->write_input(k, view) : feed.write_input(k, view);
    inputs.push_back(std::move(x));
  }
  return inputs;
}

TEST(PrefetchedFeed, changes_no_bit_of_augmented_images_from_a_file) {
  const testing::TemporaryFolder folder;
  k_large.write(folder / "set.h5");
  EXPECT_EQ(epoch_of(folder / "set.h5", true), epoch_of(folder / "set.h5", false));
}

TEST(TrainingFeed, augments_by_sample_and_epoch_and_then_normalises) {
  const testing::TemporaryFolder folder;
  const testing::Hdf5Images written{{6, 2, 5, 5}};
  written.write(folder / "set.h5");
  auto source = data::open_images(folder / "set.h5", data::Split::train, 1U << 20U);
  data::SampleOrder order(6, 2, 1, 4);
  const NormalisedImages images(std::move(source), {{0.5, 0.25}, {0.5, 2}});
  const data::Augmentation augmentation{true, 2};
  const TrainingFeed feed(order, images, {augmentation, 4});
  for (std::int64_t epoch : {0, 3}) {
    order.prepare(epoch);
    const data::Augmenter augmenter(augmentation, {2, 5, 5}, 4, epoch);
    for (std::int64_t k = 3 * epoch; k < 3 * epoch + 3; ++k) {
      std::vector<float> x(100);
      feed.write_input(k, {reinterpret_cast<std::byte*>(x.data()),
                           tensor::DType::float32,
                           tensor::Layout::plain,
                           {2, 2, 5, 5}});
      for (std::size_t i = 0; i < 2; ++i) {
        const std::uint64_t sample = order.microbatch(k)[i];
        std::vector<std::uint8_t> pixels, changed(50);
        for (std::uint64_t p = 0; p < 50; ++p) pixels.push_back(written.pixel(50 * sample + p));
        augmenter.write<std::uint8_t>(sample, pixels, changed);
        for (std::size_t p = 0; p < 50; ++p) {
          const double mean = p < 25 ? 0.5 : 0.25, deviation = p < 25 ? 0.5 : 2;
          EXPECT_EQ(x[50 * i + p], static_cast<float>((changed[p] / 255.0 - mean) / deviation));
        }
      }
    }
  }
}

}  // namespace
}  // namespace dynpipe::app
