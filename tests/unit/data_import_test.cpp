#include "app/data_import.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "app/data_info.hpp"
#include "base/errors.hpp"
#include "data/data_set.hpp"
#include "data/picture_folder.hpp"
#include "support/files.hpp"
#include "support/image_files.hpp"
#include "support/pictures.hpp"

namespace dynpipe::app {
namespace {

namespace fs = std::filesystem;
using data::Split;
using testing::expect_contains;
using testing::refusal_of;
using testing::waves;
using testing::write_jpeg;
using testing::write_png;

class ImportTest : public ::testing::Test {
 protected:
  /// `count` pictures of a class, alternately PNG and JPEG, all different.
  void write_class(const fs::path& folder, int count, std::int64_t side = 12) const {
    fs::create_directories(folder);
    const int first = static_cast<int>(folder.string().back()) * 10;
    for (int i = 0; i < count; ++i) {
      const auto picture = waves(side, side + 4, 3, first + i);
      if (i % 2 == 0) {
        write_png(folder / (std::to_string(i) + ".png"), picture);
      } else {
        write_jpeg(folder / (std::to_string(i) + ".JPEG"), picture);
      }
    }
    testing::write_bytes(folder / "notes.txt", {});
  }
  void write_folder() const {
    write_class(source_ / "train" / "dog", 5);
    write_class(source_ / "train" / "cat", 4);
    write_class(source_ / "test" / "cat", 2);
    write_class(source_ / "test" / "dog", 1);
  }
  /// Runs the command and returns what it prints.
  std::string import(std::vector<std::string> words) const {
    words.insert(words.begin(), {source_.string(), file_.string()});
    ::testing::internal::CaptureStdout();
    try {
      import_data(*parse_import_options(words));
    } catch (...) {
      ::testing::internal::GetCapturedStdout();
      throw;
    }
    return ::testing::internal::GetCapturedStdout();
  }
  std::string refusal(const std::vector<std::string>& words = {}) const {
    return refusal_of([&] { import(words); });
  }
  std::unique_ptr<data::ImageSource> opened(Split split) const {
    return data::open_images(file_, split, 16U << 20U);
  }
  /// Nothing half done is left.
  void expect_nothing_written() const {
    EXPECT_FALSE(fs::exists(file_));
    EXPECT_FALSE(fs::exists(file_.string() + ".part"));
  }

 private:
  testing::TemporaryFolder folder_;

 protected:
  fs::path source_ = folder_ / "pictures";
  fs::path file_ = folder_ / "set.h5";
};

TEST_F(ImportTest, folders_become_classes_by_name_and_every_picture_is_there) {
  write_folder();
  const std::string told = import({"--size", "8x6", "--threads", "2"});
  expect_contains(told, "9 training and 3 test images [3,8,6], 2 classes");
  const auto train = opened(Split::train);
  EXPECT_EQ(train->facts().class_names, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(train->facts().image, (base::Shape{3, 8, 6}));
  std::vector<std::int32_t> labels = train->facts().labels;
  EXPECT_FALSE(std::is_sorted(labels.begin(), labels.end())) << "classes are to be mixed";
  EXPECT_EQ(std::count(labels.begin(), labels.end(), 0), 4);
  EXPECT_EQ(std::count(labels.begin(), labels.end(), 1), 5);
  std::set<std::vector<std::byte>> different;
  for (std::int64_t i = 0; i < train->size(); ++i) {
    const auto pixels = train->pixels_of(i);
    different.emplace(pixels.begin(), pixels.end());
  }
  EXPECT_EQ(different.size(), 9U);
  EXPECT_EQ(opened(Split::test)->facts().labels, (std::vector<std::int32_t>{0, 0, 1}));

  const data::Normalisation measured = data::measure_normalisation(*train);
  EXPECT_EQ(train->facts().normalisation->mean, measured.mean);
  EXPECT_EQ(train->facts().normalisation->deviation, measured.deviation);
}

TEST_F(ImportTest, the_same_again_for_any_number_of_threads) {
  write_folder();
  import({"--size", "8x8", "--threads", "1"});
  const auto once = testing::bytes_of(file_);
  import({"--size", "8x8", "--threads", "3", "--overwrite"});
  const auto train = opened(Split::train);
  testing::write_bytes(file_.string() + ".first", once);
  const auto before = data::open_images(file_.string() + ".first", Split::train, 1U << 20U);
  EXPECT_EQ(train->facts().labels, before->facts().labels);
  for (std::int64_t i = 0; i < train->size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(train->pixels_of(i), before->pixels_of(i)));
  }
}

TEST_F(ImportTest, pictures_of_one_size_keep_it_and_may_become_grey) {
  write_folder();
  import({"--gray"});
  EXPECT_EQ(opened(Split::train)->facts().image, (base::Shape{1, 12, 16}));
}

TEST_F(ImportTest, a_share_of_each_class_may_be_set_aside_to_test_on) {
  write_class(source_ / "a", 10);
  write_class(source_ / "b", 5);
  import({"--test-fraction", "0.2"});
  const auto test = opened(Split::test);
  EXPECT_EQ(test->facts().labels, (std::vector<std::int32_t>{0, 0, 1}));
  EXPECT_EQ(opened(Split::train)->size(), 12);
  expect_contains(refusal({"--overwrite"}), "--test-fraction: is missing");
}

TEST_F(ImportTest, all_unreadable_pictures_are_found_and_ten_are_named) {
  write_folder();
  const fs::path jpeg = source_ / "train" / "dog" / "1.JPEG";
  testing::truncate(jpeg, 0.6);
  testing::truncate(source_ / "test" / "cat" / "0.png", 0.6);
  const std::string two = refusal();
  expect_contains(two, source_.string() + ": 2 of 12 pictures cannot be used (--skip-bad");
  expect_contains(two, "\n  " + jpeg.string() + ": JPEG: ");
  expect_contains(two, (source_ / "test" / "cat" / "0.png").string() + ": PNG: ");
  expect_nothing_written();

  for (int i = 10; i < 30; ++i) {
    testing::write_bytes(source_ / "train" / "cat" / (std::to_string(i) + ".jpg"), {});
  }
  const std::string many = refusal();
  expect_contains(many, ": 22 of 32 pictures cannot");
  EXPECT_EQ(std::count(many.begin(), many.end(), '\n'), 11);
  expect_contains(many, "\n  and 12 more");

  const std::string told = import({"--skip-bad"});
  expect_contains(told, "22 pictures that cannot be used are left out\n");
  expect_contains(told, "8 training and 2 test images");
}

TEST_F(ImportTest, pictures_of_other_sizes_are_named_unless_a_size_is_given) {
  write_folder();
  write_png(source_ / "train" / "cat" / "large.png", waves(40, 30, 3));
  expect_contains(refusal(), "large.png: has 40 x 30 pixels, others 12 x 16: --size makes");
  EXPECT_EQ(refusal({"--size", "10x10", "--fit", "stretch"}), "");
}

TEST_F(ImportTest, what_cannot_be_imported_is_refused) {
  expect_contains(refusal(), source_.string() + ": does not exist");
  fs::create_directories(source_ / "train" / "cat");
  expect_contains(refusal(), source_.string() + ": folder: holds no known data set");
  write_folder();
  fs::create_directories(source_ / "train" / "cow");
  expect_contains(refusal(), (source_ / "train" / "cow").string() + ": folder: has 0 pictures");
  fs::remove(source_ / "train" / "cow");
  write_class(source_ / "test" / "cow", 1);
  expect_contains(refusal(), (source_ / "test" / "cow").string() + ": class: is not among");
  fs::remove_all(source_ / "test" / "cow");
  expect_contains(refusal({"--test-fraction", "0.5"}), "--test-fraction: is not needed");
  expect_nothing_written();
  import({});
  expect_contains(refusal(), file_.string() + ": is there already; --overwrite replaces it");
}

TEST_F(ImportTest, options_are_checked) {
  for (const auto& [words, says] : std::map<std::vector<std::string>, std::string>{
           {{"--size", "64"}, "--size: '64'"},
           {{"--size", "0x8"}, "--size: '0x8'"},
           {{"--size", "8x8x8"}, "--size: '8x8x8'"},
           {{"--fit", "pad"}, "--fit: 'pad'"},
           {{"--fit", "stretch"}, "--fit: means nothing without --size"},
           {{"--test-fraction", "1"}, "--test-fraction: must be above 0 and below 1"},
           {{"--threads", "0"}, "--threads: must be 1"},
           {{"--sise", "8x8"}, "did you mean '--size'?"}}) {
    expect_contains(refusal(words), says);
  }
  expect_contains(refusal_of([] { parse_import_options({}); }), "SOURCE: is missing");
  expect_contains(refusal_of([] { parse_import_options({"a"}); }), "FILE.h5: is missing");
  EXPECT_EQ(parse_import_options({"--help"}), std::nullopt);
}

TEST_F(ImportTest, a_data_set_is_copied_as_it_is) {
  for (io::Element element : {io::Element::uint8, io::Element::float32}) {
    testing::Hdf5Images written{{700, 3, 20, 30}, {}};
    written.element = element;
    written.write(source_);
    import({"--overwrite"});
    for (Split split : {Split::train, Split::test}) {
      const auto from = data::open_images(source_, split, 1U << 20U);
      const auto to = opened(split);
      EXPECT_EQ(to->facts().labels, from->facts().labels);
      EXPECT_EQ(to->facts().pixels, from->facts().pixels);
      for (std::int64_t i = 0; i < from->size(); ++i) {
        ASSERT_TRUE(std::ranges::equal(from->pixels_of(i), to->pixels_of(i)));
      }
    }
  }
  expect_contains(refusal({"--gray", "--overwrite"}), "--gray: is for pictures;");
}

/// Columns of the widest line, where letters are not ASCII counted once.
std::size_t widest(const std::string& text) {
  std::size_t most = 0, columns = 0;
  for (char letter : text) {
    if (letter == '\n')
      columns = 0;
    else if ((static_cast<unsigned char>(letter) & 0xC0U) != 0x80U)
      ++columns;
    most = std::max(most, columns);
  }
  return most;
}

TEST_F(ImportTest, info_tells_format_shapes_counts_pixels_and_classes) {
  write_folder();
  import({"--size", "40x40"});
  const std::string text = describe_data({file_.string(), 3, true}, Colours::none);
  expect_contains(text, file_.string() + ": HDF5, images [3,40,40] of uint8, 2 classes\n");
  expect_contains(text, "train          9");
  expect_contains(text, "test           3");
  expect_contains(text, "0 cat");
  expect_contains(text, "1 dog");
  expect_contains(text, "[0] ");
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_LE(widest(text.substr(text.find('\n'))), 80U);
}

TEST_F(ImportTest, info_fits_many_classes_into_eighty_columns) {
  for (std::int64_t classes : {10, 13, 100, 500}) {
    testing::Hdf5Images written{{500, 1, 4, 4}, {}};
    written.classes = classes;
    written.write(file_);
    const std::string text = describe_data({file_.string(), 0, false}, Colours::none);
    EXPECT_LE(widest(text.substr(text.find('\n'))), 80U);
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 45);
  }
}

TEST(Draw, shows_two_rows_in_a_line) {
  const data::Picture picture{3, 2, 1, {0, 255, 0, 255, 255, 0}};
  EXPECT_EQ(draw(picture, Colours::none), (std::vector<std::string>{" @", "@ "}));
  EXPECT_EQ(draw(picture, Colours::true_colour)[0],
            "\x1b[38;2;0;0;0;48;2;0;0;0m▀\x1b[38;2;255;255;255;48;2;255;255;255m▀\x1b[0m");
  EXPECT_EQ(draw(picture, Colours::palette)[1],
            "\x1b[38;5;231;48;5;16m▀\x1b[38;5;16;48;5;16m▀\x1b[0m");
}

}  // namespace
}  // namespace dynpipe::app
