#include "io/hdf5.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/errors.hpp"
#include "io/hdf5_table.hpp"
#include "support/files.hpp"

namespace dynpipe::io {
namespace {

using testing::bytes_of;
using testing::expect_contains;
using testing::refusal_of;
using testing::write_bytes;

class Hdf5Test : public ::testing::Test {
  testing::TemporaryFolder folder_;

 protected:
  std::filesystem::path file_ = folder_ / "a.h5";

  /// A file with [6,2] numbers 0, 1, 2, ..., in chunks of 4 rows.
  void write_numbers(int deflate = 0) const {
    std::vector<std::int32_t> values(12);
    std::iota(values.begin(), values.end(), 0);
    File file = File::create(file_);
    file.create_dataset("/group/numbers", {Element::int32, {6, 2}, {4, 2}, deflate})
        .write_all<std::int32_t>(values);
    file.close();
  }
};

TEST_F(Hdf5Test, element_names_the_type_in_memory) {
  EXPECT_EQ(element_of<std::uint8_t>(), Element::uint8);
  EXPECT_EQ(element_of<std::int64_t>(), Element::int64);
  EXPECT_EQ(element_of<float>(), Element::float32);
  EXPECT_EQ(element_of<double>(), Element::float64);
}

TEST_F(Hdf5Test, rows_read_back_as_they_were_written_in_any_numeric_type) {
  for (int deflate : {0, 4}) {
    write_numbers(deflate);
    const Dataset numbers = File::open(file_).dataset("/group/numbers");
    EXPECT_EQ(numbers.element(), Element::int32);
    EXPECT_EQ(numbers.shape(), (Extent{6, 2}));
    EXPECT_EQ(numbers.chunk(), (Extent{4, 2}));
    std::vector<double> rows(6);
    numbers.read_rows<double>(2, 3, rows);
    EXPECT_EQ(rows, (std::vector<double>{4, 5, 6, 7, 8, 9}));
    EXPECT_EQ(numbers.read_all<std::uint8_t>(),
              (std::vector<std::uint8_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  }
}

TEST_F(Hdf5Test, rows_are_written_in_any_order) {
  {
    File file = File::create(file_);
    Dataset numbers = file.create_dataset("/numbers", {Element::float32, {3, 2}, {}, 0});
    numbers.write_rows<float>(2, 1, std::vector<float>{5, 6});
    numbers.write_rows<float>(0, 2, std::vector<float>{1, 2, 3, 4});
  }
  EXPECT_EQ(File::open(file_).dataset("/numbers").read_all<float>(),
            (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST_F(Hdf5Test, attributes_and_texts_read_back) {
  write_numbers();
  {
    File file = File::create(file_);
    file.write_texts("/deep/down/names", std::vector<std::string>{"cat", "", "Übermut"});
    file.create_dataset("/scalar", {Element::int64, {}, {}, 0})
        .write_all<std::int64_t>(std::vector<std::int64_t>{7});
    file.set_attribute("/scalar", "mean", std::vector<double>{0.5, 0.25});
    file.set_attribute("/scalar", "mean", std::vector<double>{0.1});
    file.set_attribute("/", "made by", "a test");
    file.flush();
  }
  const File file = File::open(file_);
  EXPECT_TRUE(file.has("/"));
  EXPECT_TRUE(file.has("/deep/down"));
  EXPECT_FALSE(file.has("/deep/up/names"));
  EXPECT_EQ(file.dataset("/deep/down/names").read_texts(),
            (std::vector<std::string>{"cat", "", "Übermut"}));
  EXPECT_EQ(file.dataset("/scalar").read_all<std::int64_t>(), std::vector<std::int64_t>{7});
  EXPECT_EQ(file.attribute("/scalar", "mean"), (std::vector<double>{0.1}));
  EXPECT_EQ(file.attribute("/scalar", "deviation"), std::nullopt);
  EXPECT_EQ(file.text_attribute("/", "made by"), (std::vector<std::string>{"a test"}));
  expect_contains(refusal_of([&] { static_cast<void>(file.attribute("/", "made by")); }),
                  "/: attribute 'made by': is text where numbers are wanted");
  expect_contains(refusal_of([&] { static_cast<void>(file.text_attribute("/scalar", "mean")); }),
                  "is float64 where strings are wanted");
  expect_contains(refusal_of([&] { static_cast<void>(file.dataset("/scalar").read_texts()); }),
                  "/scalar: is int64 where strings are wanted");
}

TEST_F(Hdf5Test, what_is_not_there_or_no_dataset_is_named) {
  write_numbers();
  const File file = File::open(file_);
  const std::string where = file_.string() + ": ";
  EXPECT_EQ(refusal_of([&] { static_cast<void>(file.dataset("/group/letters")); }),
            where + "/group/letters: is missing");
  EXPECT_EQ(refusal_of([&] { static_cast<void>(file.dataset("/nowhere/letters")); }),
            where + "/nowhere/letters: is missing");
  expect_contains(refusal_of([&] { static_cast<void>(file.dataset("/group")); }),
                  where + "/group: is not a dataset");
}

TEST_F(Hdf5Test, foreign_and_truncated_files_are_refused_in_one_line_and_in_silence) {
  ::testing::internal::CaptureStderr();
  const std::string where = file_.string() + ": file: ";
  const auto refusal = [&] { return refusal_of([&] { File::open(file_); }); };
  EXPECT_EQ(refusal(), where + "does not exist");
  std::filesystem::create_directory(file_);
  EXPECT_EQ(refusal(), where + "is not a regular file");
  std::filesystem::remove(file_);
  write_bytes(file_, std::vector<std::uint8_t>(5000, 'x'));
  EXPECT_EQ(refusal(), where + "is not an HDF5 file");
  write_bytes(file_, {});
  EXPECT_EQ(refusal(), where + "is not an HDF5 file");

  write_numbers();
  std::vector<std::uint8_t> bytes = bytes_of(file_);
  bytes.resize(bytes.size() - 10);
  write_bytes(file_, bytes);
  const std::string truncated = refusal();
  expect_contains(truncated, where + "cannot be opened: truncated file");
  EXPECT_EQ(std::count(truncated.begin(), truncated.end(), '\n'), 0);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

/// How a child process that runs `read` ends: the library itself may crash on a damaged file.
enum class Ending { read, refused_by_name, refused_without_name, crashed };

template <typename Read>
Ending ending_of(const std::string& name, Read read) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string message = refusal_of(read);
    const Ending ending = message.empty()                           ? Ending::read
                          : message.find(name) != std::string::npos ? Ending::refused_by_name
                                                                    : Ending::refused_without_name;
    _exit(static_cast<int>(ending));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? static_cast<Ending>(WEXITSTATUS(status)) : Ending::crashed;
}

TEST_F(Hdf5Test, damaged_files_are_refused_by_name_where_the_library_lets_us) {
  write_numbers(6);
  const std::vector<std::uint8_t> good = bytes_of(file_);
  std::map<Ending, int> endings;
  for (std::size_t at = 0; at < good.size(); at += 3) {
    std::vector<std::uint8_t> bytes = good;
    bytes[at] ^= 0x41U;
    write_bytes(file_, bytes);
    ++endings[ending_of(file_.string(), [&] {
      const File file = File::open(file_);
      static_cast<void>(file.dataset("/group/numbers").read_all<std::int32_t>());
    })];
  }
  EXPECT_GT(endings[Ending::refused_by_name], 30);
  EXPECT_EQ(endings[Ending::refused_without_name], 0);
  // Sizes of a chunk that contradict one another make HDF5 1.10 read beyond its memory.
  EXPECT_LT(endings[Ending::crashed], 5);
}

TEST_F(Hdf5Test, rows_beyond_the_end_are_a_mistake_of_the_caller) {
  write_numbers();
  const Dataset numbers = File::open(file_).dataset("/group/numbers");
  std::vector<float> rows(4);
  EXPECT_THROW(numbers.read_rows<float>(5, 2, rows), std::out_of_range);
  EXPECT_THROW(numbers.read_rows<float>(0, 3, rows), std::invalid_argument);
}

TEST_F(Hdf5Test, what_cannot_be_written_is_a_failed_run) {
  EXPECT_THROW(File::create(file_ / "beneath.h5"), base::RunError);
  File file = File::create(file_);
  file.create_dataset("/a", {Element::uint8, {1}, {}, 0});
  EXPECT_THROW(file.create_dataset("/a", {Element::uint8, {1}, {}, 0}), base::RunError);
}

constexpr int k_no_such_disk = 77;

/// In a process of its own, on a disk of so many bytes: 0 if what happens is a RunError, and the
/// program ends without the library crashing over what it could not write.
int exit_code_of_full_disk(const std::filesystem::path& path, int kibibytes) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string size = "size=" + std::to_string(kibibytes) + "k";
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, "") != 0 ||
        mount("none", path.parent_path().c_str(), "tmpfs", 0, size.c_str()) != 0) {
      _exit(k_no_such_disk);
    }
    int failures = 0;
    try {
      File file = File::create(path);
      const std::vector<double> values(4000, 1.0);
      for (const char* name : {"/a", "/group/b", "/c"}) {
        file.create_dataset(name, {Element::float64, {4000}, {}, 0}).write_all<double>(values);
        file.set_attribute(name, "unit", std::string("s"));
      }
      {
        struct Row {
          double value;
        };
        const std::vector<Row> rows(500, Row{0.1});
        Table table = Table::create(file, "/table", {{"value", Element::float64, 0}}, 64);
        table.append(std::span<const Row>(rows));
      }
      const std::vector<std::string> texts(100, "text");
      file.write_texts("/texts", texts);
      file.close();
    } catch (const base::RunError&) {
      failures = 1;
    }
    std::exit(failures == 1 ? 0 : 3);  // what the library does at exit is part of it
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(Hdf5Test, a_full_disk_is_a_failed_run_and_no_crash) {
  for (const int kibibytes : {4, 8, 16, 32, 36, 52, 68, 84, 96}) {
    const int code = exit_code_of_full_disk(file_, kibibytes);
    if (code == k_no_such_disk) GTEST_SKIP() << "a small disk cannot be mounted here";
    EXPECT_EQ(code, 0) << kibibytes;
  }
}

TEST_F(Hdf5Test, threads_may_read_at_once) {
  write_numbers(1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      for (int i = 0; i < 50; ++i) {
        const Dataset numbers = File::open(file_).dataset("/group/numbers");
        EXPECT_EQ(numbers.read_all<std::int32_t>()[11], 11);
        EXPECT_NE(refusal_of([&] { File::open(file_).dataset("/none"); }), "");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace dynpipe::io
