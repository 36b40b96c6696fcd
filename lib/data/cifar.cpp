#include "data/cifar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/errors.hpp"
#include "data/byte_file.hpp"

namespace dynpipe::data {
namespace {

constexpr std::size_t k_pixels = 3 * 32 * 32;
/// Labels of a CIFAR-100 record: coarse, then fine.
constexpr int k_coarse_classes = 20;

struct Layout {
  std::string_view name;
  std::size_t label_bytes;
  int classes;
  std::string_view names_file;
};

Layout layout_of(Cifar kind) {
  return kind == Cifar::ten ? Layout{"CIFAR-10", 1, 10, "batches.meta.txt"}
                            : Layout{"CIFAR-100", 2, 100, "fine_label_names.txt"};
}

std::size_t record_bytes(Cifar kind) {
  return layout_of(kind).label_bytes + k_pixels;
}

std::vector<std::string> files_of(Cifar kind, Split split) {
  if (kind == Cifar::hundred) return {split == Split::train ? "train.bin" : "test.bin"};
  if (split == Split::test) return {"test_batch.bin"};
  return {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
          "data_batch_5.bin"};
}

/// Number of records; throws unless the file's size is that of some.
std::int64_t records_in(const ByteFile& file, Cifar kind) {
  const std::uint64_t bytes = file.size_bytes();
  const std::size_t record = record_bytes(kind);
  if (bytes == 0 || bytes % record != 0) {
    throw base::InputError(file.name(), "size",
                           fmt::format("{} bytes are not a number of {} records of {} bytes: the "
                                       "file is truncated or another one",
                                       bytes, layout_of(kind).name, record));
  }
  return static_cast<std::int64_t>(bytes / record);
}

void check_label(const ByteFile& file, std::int64_t record, std::uint8_t label, int classes,
                 Cifar kind) {
  if (label < classes) return;
  throw base::InputError(file.name(), fmt::format("labels[{}]", record),
                         fmt::format("is {}, but {} has {} such classes (0 to {})", label,
                                     layout_of(kind).name, classes, classes - 1));
}

/// Appends the file's records to `set`.
void read_file(const std::filesystem::path& path, Cifar kind, ImageSet& set) {
  ByteFile file(path);
  const Layout layout = layout_of(kind);
  std::vector<std::uint8_t> record(record_bytes(kind));
  for (std::int64_t i = 0, count = records_in(file, kind); i < count; ++i) {
    if (file.read(record) < record.size()) {
      throw base::InputError(file.name(), "size", "the file became shorter while it was read");
    }
    if (layout.label_bytes == 2) check_label(file, i, record[0], k_coarse_classes, kind);
    const std::uint8_t label = record[layout.label_bytes - 1];
    check_label(file, i, label, layout.classes, kind);
    set.labels.push_back(label);
    set.pixels.insert(set.pixels.end(),
                      record.begin() + static_cast<std::ptrdiff_t>(layout.label_bytes),
                      record.end());
  }
}

/// The first `classes` lines of a text file, or nothing where it is not there or shorter.
std::vector<std::string> class_names(const std::filesystem::path& path, int classes) {
  std::vector<std::string> names;
  std::ifstream text(path);
  for (std::string line; std::ssize(names) < classes && std::getline(text, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (std::ssize(names) < classes) names.clear();
  return names;
}

}  // namespace

std::optional<Cifar> find_cifar(const std::filesystem::path& folder) {
  for (const Cifar kind : {Cifar::ten, Cifar::hundred}) {
    for (const Split split : {Split::train, Split::test}) {
      const std::vector<std::string> files = files_of(kind, split);
      const bool found = std::any_of(files.begin(), files.end(), [&](const std::string& file) {
        std::error_code ignored;
        return std::filesystem::exists(folder / file, ignored);
      });
      if (found) return kind;
    }
  }
  return std::nullopt;
}

ImageSetHeader inspect_cifar(const std::filesystem::path& folder, Cifar kind, Split split) {
  ImageSetHeader header{0, {3, 32, 32}};
  for (const std::string& file : files_of(kind, split)) {
    header.count += records_in(ByteFile(folder / file), kind);
  }
  return header;
}

ImageSet read_cifar(const std::filesystem::path& folder, Cifar kind, Split split) {
  const ImageSetHeader header = inspect_cifar(folder, kind, split);
  const Layout layout = layout_of(kind);
  ImageSet set;
  set.image = header.image;
  set.classes = layout.classes;
  set.class_names = class_names(folder / layout.names_file, layout.classes);
  set.labels.reserve(static_cast<std::size_t>(header.count));
  set.pixels.reserve(static_cast<std::size_t>(header.count) * k_pixels);
  for (const std::string& file : files_of(kind, split)) read_file(folder / file, kind, set);
  return set;
}

}  // namespace dynpipe::data
