#include "data/augmentation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "support/files.hpp"

namespace dynpipe::data {
namespace {

using testing::expect_contains;
using testing::refusal_of;

TEST(Augmentation, is_read_from_words_and_written_as_such) {
  for (const auto& [text, flip, padding, again] : {std::tuple{"flip", true, 0, "flip"},
                                                   {"crop", false, 4, "crop:4"},
                                                   {"crop:7", false, 7, "crop:7"},
                                                   {"crop,flip", true, 4, "flip,crop:4"}}) {
    const Augmentation found = Augmentation::parse(text, "--augment");
    EXPECT_EQ(found.flip, flip);
    EXPECT_EQ(found.crop_padding, padding);
    EXPECT_EQ(found.to_string(), again);
  }
  for (const char* text : {"", "flop", "flip,", ",flip", "flip,flip", "crop:", "crop:0", "crop:-1",
                           "crop:4x", "crop:4,crop", "crop:99999999999999999999", "flip crop"}) {
    expect_contains(refusal_of([&] { Augmentation::parse(text, "--augment"); }),
                    std::string("--augment: '") + text + "' is not made of");
  }
}

/// The changed image by the formula of the header, pixel by pixel.
template <typename T>
std::vector<T> formula(const Augmenter::Change& change, const base::Shape& shape,
                       const std::vector<T>& image) {
  std::vector<T> changed(image.size(), T{0});
  const std::int64_t H = shape[1], W = shape[2];
  for (std::int64_t c = 0; c < shape[0]; ++c) {
    for (std::int64_t y = 0; y < H; ++y) {
      for (std::int64_t x = 0; x < W; ++x) {
        const std::int64_t from_y = y + change.down;
        const std::int64_t from_x = (change.flip ? W - 1 - x : x) + change.right;
        if (from_y < 0 || from_y >= H || from_x < 0 || from_x >= W) continue;
        changed[static_cast<std::size_t>((c * H + y) * W + x)] =
            image[static_cast<std::size_t>((c * H + from_y) * W + from_x)];
      }
    }
  }
  return changed;
}

TEST(Augmentation, moves_and_flips_as_the_formula_says) {
  const base::Shape shape{2, 5, 7};
  std::vector<std::uint8_t> bytes(70);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{1});
  const std::vector<float> numbers(bytes.begin(), bytes.end());
  for (const Augmentation& augmentation : {Augmentation{true, 0}, Augmentation{false, 2},
                                           Augmentation{true, 4}, Augmentation{true, 9}}) {
    const Augmenter augmenter(augmentation, shape, 3, 1);
    for (std::uint64_t sample = 0; sample < 300; ++sample) {
      const Augmenter::Change change = augmenter.change(sample);
      std::vector<std::uint8_t> changed(70);
      augmenter.write<std::uint8_t>(sample, bytes, changed);
      EXPECT_EQ(changed, formula(change, shape, bytes));
      std::vector<float> changed_numbers(70);
      augmenter.write<float>(sample, numbers, changed_numbers);
      EXPECT_EQ(changed_numbers, formula(change, shape, numbers));
    }
  }
}

TEST(Augmentation, draws_from_the_counter_based_generator_by_sample) {
  const Augmenter augmenter({true, 4}, {1, 8, 8}, 11, 5);
  const base::Philox random(11, "augment", 5);
  for (std::uint64_t sample : {0ULL, 1ULL, 123456789ULL}) {
    const base::Philox::Block words = random.block(sample);
    const Augmenter::Change change = augmenter.change(sample);
    EXPECT_EQ(change.flip, words[0] >= 0x80000000U);
    EXPECT_EQ(change.down, static_cast<std::int64_t>(words[1] / 4294967296.0 * 9) - 4);
    EXPECT_EQ(change.right, static_cast<std::int64_t>(words[2] / 4294967296.0 * 9) - 4);
  }
}

TEST(Augmentation, places_are_uniform_and_epochs_and_seeds_differ) {
  const Augmenter augmenter({true, 1}, {1, 8, 8}, 1, 0);
  const Augmenter next_epoch({true, 1}, {1, 8, 8}, 1, 1);
  const Augmenter other_seed({true, 1}, {1, 8, 8}, 2, 0);
  constexpr int k_samples = 18'000;
  std::map<std::tuple<bool, std::int64_t, std::int64_t>, int> seen;
  int same_next = 0, same_seed = 0;
  const auto key = [](const Augmenter::Change& c) { return std::tuple{c.flip, c.down, c.right}; };
  for (std::uint64_t sample = 0; sample < k_samples; ++sample) {
    const auto change = key(augmenter.change(sample));
    ++seen[change];
    same_next += change == key(next_epoch.change(sample)) ? 1 : 0;
    same_seed += change == key(other_seed.change(sample)) ? 1 : 0;
  }
  EXPECT_EQ(seen.size(), 18U);
  // 1000 expected; five standard deviations are 154.
  for (const auto& [change, count] : seen) EXPECT_NEAR(count, 1000, 154);
  EXPECT_NEAR(same_next, 1000, 154);
  EXPECT_NEAR(same_seed, 1000, 154);
}

}  // namespace
}  // namespace dynpipe::data
