#include "io/hdf5_table.hpp"

#include <fmt/format.h>

#include <cstring>

#include "base/errors.hpp"
#include "io/hdf5_library.hpp"

namespace dynpipe::io {
namespace {

using base::InputError;

constexpr unsigned k_deflate = 1;  ///< most of what there is to gain, for the least time

std::size_t size_of(Element element) {
  return element == Element::text ? sizeof(char*) : H5Tget_size(native_type(element));
}

/// Rows one after another, columns without gaps.
Handle packed_type(const std::vector<TableColumn>& columns) {
  std::size_t bytes = 0;
  for (const TableColumn& column : columns) bytes += size_of(column.element);
  Handle type(H5Tcreate(H5T_COMPOUND, bytes), H5Tclose);
  const Handle text = variable_text_type();
  std::size_t offset = 0;
  for (const TableColumn& column : columns) {
    const hid_t member = column.element == Element::text ? text.id() : native_type(column.element);
    H5Tinsert(type.id(), column.name.c_str(), offset, member);
    offset += size_of(column.element);
  }
  return type;
}

void check_columns(const std::string& file, const std::string& path, hid_t type,
                   const std::vector<TableColumn>& columns) {
  if (H5Tget_class(type) != H5T_COMPOUND) throw InputError(file, path, "is not a table");
  for (const TableColumn& column : columns) {
    const int member = H5Tget_member_index(type, column.name.c_str());
    if (member < 0) throw InputError(file, path, fmt::format("has no column {}", column.name));
    const Handle found(H5Tget_member_type(type, static_cast<unsigned>(member)), H5Tclose);
    const Element element = element_of_type(found.id());
    const bool text = element == Element::text;
    const bool variable = text && H5Tis_variable_str(found.id()) > 0;
    const bool wanted = column.element == Element::text;
    if (element == Element::other || text != wanted || (text && !variable)) {
      throw InputError(
          file, path,
          fmt::format("column {} holds no {}", column.name, wanted ? "text" : "number"));
    }
  }
}

}  // namespace

Table::Table(Handle handle, std::string file, std::string path, std::vector<TableColumn> columns)
    : handle_(std::move(handle)),
      file_(std::move(file)),
      path_(std::move(path)),
      columns_(std::move(columns)) {
  const Handle space(H5Dget_space(handle_.id()), H5Sclose);
  const Extent extent = extent_of(space.id());
  if (extent.size() != 1) throw InputError(file_, path_, "is not a table");
  rows_ = extent[0];
}

Table::~Table() {
  const Library library;
  if (handle_.id() >= 0 && written_ && H5Dflush(handle_.id()) < 0) divert(handle_.id());
}

Table Table::create(File& file, const std::string& path, std::vector<TableColumn> columns,
                    std::uint64_t rows_in_a_chunk) {
  const Library library;
  const Handle type = packed_type(columns);
  const Handle space = space_of({0}, true);
  const Handle groups = making_groups();
  const Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  const hsize_t chunk = rows_in_a_chunk;
  H5Pset_chunk(properties.id(), 1, &chunk);
  if (H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0) {
    H5Pset_shuffle(properties.id());
    H5Pset_deflate(properties.id(), k_deflate);
  }
  Handle handle(H5Dcreate2(file.id(), path.c_str(), type.id(), space.id(), groups.id(),
                           properties.id(), H5P_DEFAULT),
                H5Dclose);
  if (handle.id() < 0) {
    fail_to_write(file.id(), fmt::format("{}: {}", file.name(), path));
  }
  return {std::move(handle), file.name(), path, std::move(columns)};
}

Table Table::open(const File& file, const std::string& path, std::vector<TableColumn> columns) {
  const Library library;
  if (!file.has(path)) throw InputError(file.name(), path, "is missing");
  Handle handle(H5Dopen2(file.id(), path.c_str(), H5P_DEFAULT), H5Dclose);
  if (handle.id() < 0) {
    throw InputError(file.name(), path,
                     fmt::format("is not a table that can be opened: {}", reason()));
  }
  const Handle type(H5Dget_type(handle.id()), H5Tclose);
  check_columns(file.name(), path, type.id(), columns);
  return {std::move(handle), file.name(), path, std::move(columns)};
}

std::size_t Table::packed_bytes() const {
  std::size_t bytes = 0;
  for (const TableColumn& column : columns_) bytes += size_of(column.element);
  return bytes;
}

void Table::append(const std::byte* rows, std::size_t count, std::size_t stride) {
  if (count == 0) return;
  const Library library;
  std::vector<std::byte> packed(count * packed_bytes());
  std::byte* to = packed.data();
  for (std::size_t i = 0; i < count; ++i) {
    for (const TableColumn& column : columns_) {
      const std::byte* const from = rows + i * stride + column.offset;
      const std::size_t bytes = size_of(column.element);
      if (column.element == Element::text) {
        const char* const letters = reinterpret_cast<const std::string*>(from)->c_str();
        std::memcpy(to, &letters, bytes);
      } else {
        std::memcpy(to, from, bytes);
      }
      to += bytes;
    }
  }
  const hsize_t first = rows_;
  const hsize_t length = count;
  written_ = true;
  resize(rows_ + count);
  const Handle type = packed_type(columns_);
  const Handle memory = space_of({count});
  const Handle space(H5Dget_space(handle_.id()), H5Sclose);
  H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, &first, nullptr, &length, nullptr);
  if (H5Dwrite(handle_.id(), type.id(), memory.id(), space.id(), H5P_DEFAULT, packed.data()) < 0) {
    fail_to_write(handle_.id(), fmt::format("{}: {}", file_, path_));
  }
}

void Table::read(std::byte* rows, std::size_t stride) const {
  if (rows_ == 0) return;
  const Library library;
  std::vector<std::byte> packed(rows_ * packed_bytes());
  const Handle type = packed_type(columns_);
  const Handle memory = space_of({rows_});
  if (H5Dread(handle_.id(), type.id(), memory.id(), H5S_ALL, H5P_DEFAULT, packed.data()) < 0) {
    throw InputError(file_, path_, fmt::format("cannot be read: {}", reason()));
  }
  const std::byte* from = packed.data();
  for (std::size_t i = 0; i < rows_; ++i) {
    for (const TableColumn& column : columns_) {
      std::byte* const to = rows + i * stride + column.offset;
      const std::size_t bytes = size_of(column.element);
      if (column.element == Element::text) {
        const char* letters = nullptr;
        std::memcpy(&letters, from, bytes);
        *reinterpret_cast<std::string*>(to) = letters == nullptr ? "" : letters;
      } else {
        std::memcpy(to, from, bytes);
      }
      from += bytes;
    }
  }
  H5Dvlen_reclaim(type.id(), memory.id(), H5P_DEFAULT, packed.data());
}

void Table::check_size() const {
  constexpr double k_believed_bytes = 1U << 26U;
  constexpr double k_most_expansion = 1032;  // of deflate
  const Library library;
  const double bytes = static_cast<double>(rows_) * static_cast<double>(packed_bytes());
  const auto stored = static_cast<double>(H5Dget_storage_size(handle_.id()));
  if (bytes <= k_believed_bytes || bytes <= k_most_expansion * stored) return;
  throw InputError(file_, path_,
                   fmt::format("announces {} rows, but {} bytes of it are there", rows_, stored));
}

void Table::resize(std::uint64_t rows) {
  const hsize_t length = rows;
  if (H5Dset_extent(handle_.id(), &length) < 0) {
    fail_to_write(handle_.id(), fmt::format("{}: {}", file_, path_));
  }
  rows_ = rows;
}

void Table::cut(std::uint64_t rows) {
  const Library library;
  if (rows < rows_) resize(rows);
}

}  // namespace dynpipe::io
