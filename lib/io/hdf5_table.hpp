#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/hdf5.hpp"

namespace dynpipe::io {

/// A column of a table, and where its value lies in the struct that is a row in memory: a number,
/// or a std::string.
struct TableColumn {
  std::string name;
  Element element = Element::float64;
  std::size_t offset = 0;
};

/// The column that a member of `Row` is.
template <typename Row, typename T>
TableColumn column(std::string name, T Row::*member) {
  const Row row{};
  const auto* const base = reinterpret_cast<const std::byte*>(&row);
  const auto offset =
      static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&(row.*member)) - base);
  if constexpr (std::same_as<T, std::string>) return {std::move(name), Element::text, offset};
  if constexpr (Numeric<T>) return {std::move(name), element_of<T>(), offset};
}

/// Rows in a file: a one-dimensional, growing, compressed array of a compound type. Text is UTF-8
/// of any length. Keeps the file open.
class Table {
 public:
  /// Throws RunError. Groups on the way are made too.
  static Table create(File& file, const std::string& path, std::vector<TableColumn> columns,
                      std::uint64_t rows_in_a_chunk);
  /// Of what the file has, the named columns. Throws InputError naming path and column where one is
  /// missing or is text where a number is wanted, or the other way round.
  static Table open(const File& file, const std::string& path, std::vector<TableColumn> columns);

  Table(Table&&) noexcept = default;
  Table& operator=(Table&&) = delete;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  /// What was written is handed on; where that fails, `File::close` throws.
  ~Table();

  std::uint64_t rows() const { return rows_; }

  template <typename Row>
  void append(std::span<const Row> rows) {
    append(reinterpret_cast<const std::byte*>(rows.data()), rows.size(), sizeof(Row));
  }
  /// All rows.
  template <typename Row>
  std::vector<Row> read() const {
    check_size();
    std::vector<Row> rows(rows_);
    read(reinterpret_cast<std::byte*>(rows.data()), sizeof(Row));
    return rows;
  }
  /// Keeps the first `rows`.
  void cut(std::uint64_t rows);

 private:
  Table(Handle handle, std::string file, std::string path, std::vector<TableColumn> columns);

  void append(const std::byte* rows, std::size_t count, std::size_t stride);
  void read(std::byte* rows, std::size_t stride) const;
  /// Refuses a length that the file cannot hold, as damage makes them.
  void check_size() const;
  void resize(std::uint64_t rows);
  std::size_t packed_bytes() const;

  Handle handle_;
  std::string file_, path_;
  std::vector<TableColumn> columns_;
  std::uint64_t rows_ = 0;
  bool written_ = false;  ///< since it was opened
};

}  // namespace dynpipe::io
