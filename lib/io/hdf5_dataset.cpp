#include <fmt/format.h>

#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/errors.hpp"
#include "io/hdf5_library.hpp"

namespace dynpipe::io {

Dataset::Dataset(Handle handle, std::string file, std::string path)
    : handle_(std::move(handle)), file_(std::move(file)), path_(std::move(path)) {
  const Library library;
  const Handle type(H5Dget_type(handle_.id()), H5Tclose);
  const Handle space(H5Dget_space(handle_.id()), H5Sclose);
  const Handle properties(H5Dget_create_plist(handle_.id()), H5Pclose);
  element_ = element_of_type(type.id());
  shape_ = extent_of(space.id());
  if (H5Pget_layout(properties.id()) == H5D_CHUNKED) {
    std::vector<hsize_t> lengths(shape_.size());
    H5Pget_chunk(properties.id(), static_cast<int>(lengths.size()), lengths.data());
    chunk_.assign(lengths.begin(), lengths.end());
  }
}

Dataset::~Dataset() {
  const Library library;
  if (handle_.id() >= 0 && written_ && H5Dflush(handle_.id()) < 0) divert(handle_.id());
}

void Dataset::check_size() const {
  // What was never written takes no room in the file, so small arrays are believed anyhow; deflate
  // makes of one byte 1032 at most.
  constexpr double k_believed_bytes = 1U << 26U;
  constexpr double k_most_expansion = 1032;
  const Library library;
  const auto stored = static_cast<double>(H5Dget_storage_size(handle_.id()));
  double bytes = 8;
  for (std::uint64_t length : shape_) bytes *= static_cast<double>(length);
  if (bytes <= k_believed_bytes || bytes <= 8 * k_most_expansion * stored) return;
  throw base::InputError(
      file_, path_,
      fmt::format("announces {:.3g} elements, but {} bytes of it are there", bytes / 8, stored));
}

std::uint64_t Dataset::elements() const {
  return std::accumulate(shape_.begin(), shape_.end(), std::uint64_t{1}, std::multiplies<>());
}

namespace {

/// The rows of an array that are read or written, in the file and in memory.
struct Selection {
  Handle file, memory;
};

Selection select(hid_t dataset, const Extent& shape, std::optional<std::uint64_t> first,
                 std::uint64_t count, std::size_t values) {
  Selection selection{{H5Dget_space(dataset), H5Sclose}, {}};
  std::uint64_t wanted =
      std::accumulate(shape.begin(), shape.end(), std::uint64_t{1}, std::multiplies<>());
  if (first) {
    if (shape.empty() || *first > shape[0] || count > shape[0] - *first) {
      throw std::out_of_range("rows beyond the end of a dataset");
    }
    std::vector<hsize_t> start(shape.size(), 0);
    std::vector<hsize_t> lengths(shape.begin(), shape.end());
    start[0] = *first;
    lengths[0] = count;
    wanted = std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{1}, std::multiplies<>());
    H5Sselect_hyperslab(selection.file.id(), H5S_SELECT_SET, start.data(), nullptr, lengths.data(),
                        nullptr);
  }
  if (values != wanted) throw std::invalid_argument("rows and memory differ in size");
  selection.memory = space_of({wanted});
  return selection;
}

std::size_t size_in_memory(Element element) {
  return H5Tget_size(native_type(element));
}

}  // namespace

void Dataset::read(std::optional<std::uint64_t> first, std::uint64_t count, Element element,
                   std::span<std::byte> values) const {
  const Library library;
  const Selection rows =
      select(handle_.id(), shape_, first, count, values.size() / size_in_memory(element));
  if (values.empty()) return;
  if (H5Dread(handle_.id(), native_type(element), rows.memory.id(), rows.file.id(), H5P_DEFAULT,
              values.data()) < 0) {
    const std::string what =
        first ? fmt::format("rows {} to {} cannot", *first, *first + count - 1) : "cannot";
    throw base::InputError(file_, path_, fmt::format("{} be read: {}", what, reason()));
  }
}

void Dataset::write(std::optional<std::uint64_t> first, std::uint64_t count, Element element,
                    std::span<const std::byte> values) {
  const Library library;
  const Selection rows =
      select(handle_.id(), shape_, first, count, values.size() / size_in_memory(element));
  if (values.empty()) return;
  written_ = true;
  if (H5Dwrite(handle_.id(), native_type(element), rows.memory.id(), rows.file.id(), H5P_DEFAULT,
               values.data()) < 0) {
    fail_to_write(handle_.id(), fmt::format("{}: {}", file_, path_));
  }
}

void Dataset::grow(std::uint64_t rows) {
  const Library library;
  shape_[0] = rows;
  const std::vector<hsize_t> lengths(shape_.begin(), shape_.end());
  if (H5Dset_extent(handle_.id(), lengths.data()) < 0) {
    fail_to_write(handle_.id(), fmt::format("{}: {}", file_, path_));
  }
}

std::vector<std::string> Dataset::read_texts() const {
  const Library library;
  if (element_ != Element::text) {
    throw base::InputError(file_, path_,
                           fmt::format("is {} where strings are wanted", name_of(element_)));
  }
  const Handle type(H5Dget_type(handle_.id()), H5Tclose);
  const Handle space(H5Dget_space(handle_.id()), H5Sclose);
  auto texts = read_strings(type.id(), space.id(), [&](hid_t memory, void* into) {
    return H5Dread(handle_.id(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, into);
  });
  if (!texts) throw base::InputError(file_, path_, fmt::format("cannot be read: {}", reason()));
  return *std::move(texts);
}

}  // namespace dynpipe::io
