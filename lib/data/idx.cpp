#include "data/idx.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/errors.hpp"
#include "data/byte_file.hpp"

namespace dynpipe::data {
namespace {

/// A magic number is: two zero bytes, the element type (8: unsigned byte), the number of
/// dimensions.
constexpr std::uint32_t k_images_magic = 0x00000803;
constexpr std::uint32_t k_labels_magic = 0x00000801;

constexpr std::size_t k_piece_bytes = std::size_t{1} << 20U;

/// The next `Count` big-endian words of the header.
template <std::size_t Count>
std::array<std::uint32_t, Count> read_words(ByteFile& file) {
  std::array<std::uint8_t, 4 * Count> bytes{};
  if (file.read(bytes) < bytes.size()) {
    throw base::InputError(file.name(), "header", "the file ends before it does");
  }
  std::array<std::uint32_t, Count> words{};
  for (std::size_t i = 0; i < bytes.size(); ++i) words[i / 4] = words[i / 4] << 8U | bytes[i];
  return words;
}

/// Reads the magic number and throws unless it is `right`; `other` is that of the pair's other
/// half.
void read_magic(ByteFile& file, std::uint32_t right, std::uint32_t other,
                std::string_view contents) {
  const std::uint32_t magic = read_words<1>(file)[0];
  if (magic == other) {
    throw base::InputError(file.name(), "magic number",
                           fmt::format("0x{:08x} where one of {} has 0x{:08x}: images and labels "
                                       "seem to be swapped",
                                       magic, contents, right));
  }
  if (magic != right) {
    throw base::InputError(
        file.name(), "magic number",
        fmt::format("0x{:08x} where an IDX file of {} has 0x{:08x}", magic, contents, right));
  }
}

/// Throws unless `count` things of `bytes_each` can lie in the file.
void check_fits(const ByteFile& file, std::string_view things, std::uint64_t count,
                std::uint64_t bytes_each) {
  const std::string field = fmt::format("number of {}", things);
  if (count == 0) throw base::InputError(file.name(), field, "is 0");
  if (bytes_each > file.most_bytes_left() / count) {  // the product itself may pass 64 bits
    throw base::InputError(file.name(), field,
                           fmt::format("{} of {} bytes are announced, more than a file of {} bytes "
                                       "can hold: it is truncated or its header is damaged",
                                       count, bytes_each, file.size_bytes()));
  }
}

ImageSetHeader read_image_header(ByteFile& file) {
  read_magic(file, k_images_magic, k_labels_magic, "images");
  const auto [count, rows, columns] = read_words<3>(file);
  if (rows == 0) throw base::InputError(file.name(), "rows", "is 0");
  if (columns == 0) throw base::InputError(file.name(), "columns", "is 0");
  check_fits(file, "images", count, std::uint64_t{rows} * columns);
  return {count, {1, rows, columns}};
}

std::int64_t read_label_header(ByteFile& file) {
  read_magic(file, k_labels_magic, k_images_magic, "labels");
  const std::uint32_t count = read_words<1>(file)[0];
  check_fits(file, "labels", count, 1);
  return count;
}

void check_counts(const ByteFile& images, std::int64_t image_count, const ByteFile& labels,
                  std::int64_t label_count) {
  if (label_count == image_count) return;
  throw base::InputError(
      labels.name(), "number of labels",
      fmt::format("is {}, but {} holds {} images", label_count, images.name(), image_count));
}

/// The `count` bytes that follow the header, which must be the last of the file.
std::vector<std::uint8_t> read_contents(ByteFile& file, std::string_view field, std::size_t count) {
  std::vector<std::uint8_t> bytes;
  // The header is believed for as much as a file of such pixels usually unpacks to, no further.
  bytes.reserve(std::min<std::uint64_t>(count, 8 * file.size_bytes()));
  while (bytes.size() < count) {
    const std::size_t before = bytes.size();
    const std::size_t piece = std::min(count - before, k_piece_bytes);
    bytes.resize(before + piece);
    const std::size_t got = file.read(std::span(bytes).subspan(before));
    if (got < piece) {
      throw base::InputError(file.name(), field,
                             fmt::format("the file ends after {} of the {} bytes that its header "
                                         "announces",
                                         before + got, count));
    }
  }
  // One byte more: it must not be there, and looking for it has zlib verify its checksum.
  std::array<std::uint8_t, 1> beyond{};
  if (file.read(beyond) != 0) {
    throw base::InputError(
        file.name(), field,
        fmt::format("the file goes on after the {} bytes that its header announces", count));
  }
  return bytes;
}

std::filesystem::path find_file(const std::filesystem::path& folder, const std::string& name) {
  for (const std::string& candidate : {name, name + ".gz"}) {
    std::error_code ignored;
    if (std::filesystem::exists(folder / candidate, ignored)) return folder / candidate;
  }
  throw base::InputError(folder.string(), name, "not there, neither plain nor as " + name + ".gz");
}

}  // namespace

IdxPair find_idx_pair(const std::filesystem::path& folder, Split split) {
  const std::string prefix = split == Split::train ? "train" : "t10k";
  const std::string images = prefix + "-images-idx3-ubyte";
  const std::string labels = prefix + "-labels-idx1-ubyte";
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw base::InputError(
        folder.string(), "folder",
        fmt::format("does not exist; it should hold {} and {}, plain or .gz", images, labels));
  }
  return {find_file(folder, images), find_file(folder, labels)};
}

ImageSetHeader inspect_idx_pair(const IdxPair& pair) {
  ByteFile images(pair.images);
  ByteFile labels(pair.labels);
  const ImageSetHeader header = read_image_header(images);
  check_counts(images, header.count, labels, read_label_header(labels));
  return header;
}

ImageSet read_idx_pair(const IdxPair& pair) {
  ByteFile images(pair.images);
  ByteFile labels(pair.labels);
  const ImageSetHeader header = read_image_header(images);
  check_counts(images, header.count, labels, read_label_header(labels));

  ImageSet set;
  set.image = header.image;
  set.pixels = read_contents(images, "pixels",
                             static_cast<std::size_t>(header.count * header.image.elements()));
  const auto bytes = read_contents(labels, "labels", static_cast<std::size_t>(header.count));
  set.labels.assign(bytes.begin(), bytes.end());
  set.classes = *std::max_element(set.labels.begin(), set.labels.end()) + 1;
  return set;
}

ImageSet load_image_set(const std::filesystem::path& folder, Split split) {
  return read_idx_pair(find_idx_pair(folder, split));
}

}  // namespace dynpipe::data
