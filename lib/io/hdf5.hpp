#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.hpp"

/// HDF5 files: what this program reads and writes of them, with C++ lifetimes and errors. The
/// library prints nothing of its own. What is wrong with a file that is read is an InputError, what
/// cannot be written a RunError; both name file and object and end with the library's reason.
/// Any thread may call; calls into the library follow one another.
namespace dynpipe::io {

/// The HDF5 library that is loaded.
struct LibraryFacts {
  std::string version;   ///< "1.10.8"
  bool deflates = true;  ///< whether it reads and writes compressed arrays
};
LibraryFacts library_facts();

/// Type of an element, in a file or in memory.
enum class Element : std::uint8_t {
  int8,
  uint8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  uint64,
  float32,
  float64,
  text,   ///< a string, of fixed or variable length
  other,  ///< anything else; cannot be read
};
std::string_view name_of(Element element);
inline bool is_integer(Element element) {
  return element <= Element::uint64;
}

/// The element that `T` is in memory.
template <typename T>
concept Numeric = std::integral<T> || std::same_as<T, float> || std::same_as<T, double>;
template <Numeric T>
constexpr Element element_of() {
  if constexpr (std::same_as<T, float>) return Element::float32;
  if constexpr (std::same_as<T, double>) return Element::float64;
  constexpr int k_log2_bytes = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  return static_cast<Element>(2 * k_log2_bytes + (std::is_signed_v<T> ? 0 : 1));
}

/// Length of each axis, outermost first; empty: a single value.
using Extent = std::vector<std::uint64_t>;
Extent extent_of(const base::Shape& shape);

/// Something the library has open; closed with its owner.
class Handle {
 public:
  using Close = int (*)(std::int64_t);
  Handle() = default;
  Handle(std::int64_t id, Close how) : id_(id), close_(how) {}
  Handle(Handle&& other) noexcept;
  Handle& operator=(Handle&& other) noexcept;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle();

  std::int64_t id() const { return id_; }
  /// Closes it now and tells whether that worked.
  bool close();

 private:
  std::int64_t id_ = -1;
  Close close_ = nullptr;
};

/// An array in a file. Keeps the file open.
class Dataset {
 public:
  Dataset(Handle handle, std::string file, std::string path);
  Dataset(Dataset&&) noexcept = default;
  Dataset& operator=(Dataset&&) = delete;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  /// What was written is handed on; where that fails, `File::close` throws.
  ~Dataset();

  const std::string& file() const { return file_; }
  const std::string& path() const { return path_; }
  Element element() const { return element_; }
  const Extent& shape() const { return shape_; }
  /// Shape of the pieces it is stored in; empty where it lies in one.
  const Extent& chunk() const { return chunk_; }

  /// Rows [first, first + count) of the first axis, converted to `T`; `values` holds them exactly.
  template <Numeric T>
  void read_rows(std::uint64_t first, std::uint64_t count, std::span<T> values) const {
    read(first, count, element_of<T>(), std::as_writable_bytes(values));
  }
  /// All of it. A shape that the file cannot hold, as damage makes them, is refused before memory
  /// is claimed for it.
  template <Numeric T>
  std::vector<T> read_all() const {
    check_size();
    std::vector<T> values(elements());
    read(std::nullopt, 0, element_of<T>(), std::as_writable_bytes(std::span(values)));
    return values;
  }
  /// All of it, into memory of its size.
  template <Numeric T>
  void read_into(std::span<T> values) const {
    read(std::nullopt, 0, element_of<T>(), std::as_writable_bytes(values));
  }
  /// All strings of an array of them.
  std::vector<std::string> read_texts() const;
  template <Numeric T>
  void write_rows(std::uint64_t first, std::uint64_t count, std::span<const T> values) {
    write(first, count, element_of<T>(), std::as_bytes(values));
  }
  /// Makes a growing array so many rows long.
  void grow(std::uint64_t rows);
  template <Numeric T>
  void write_all(std::span<const T> values) {
    write(std::nullopt, 0, element_of<T>(), std::as_bytes(values));
  }

  /// Number of elements.
  std::uint64_t elements() const;

 private:
  void read(std::optional<std::uint64_t> first, std::uint64_t count, Element element,
            std::span<std::byte> values) const;
  void check_size() const;
  void write(std::optional<std::uint64_t> first, std::uint64_t count, Element element,
             std::span<const std::byte> values);

  Handle handle_;
  std::string file_, path_;
  Element element_ = Element::other;
  Extent shape_, chunk_;
  bool written_ = false;  ///< since it was opened
};

/// How a new array is stored.
struct DatasetLayout {
  Element element = Element::uint8;  ///< a number
  Extent shape;
  Extent chunk;          ///< empty: in one piece
  int deflate = 0;       ///< gzip level 1 to 9 of each chunk; 0: not compressed
  bool growing = false;  ///< in rows; needs chunks
};

class File {
 public:
  /// To read. Throws InputError for what is not there or is no whole HDF5 file.
  static File open(const std::filesystem::path& path);
  /// Whether it is one, as far as its first bytes tell.
  static bool is_hdf5(const std::filesystem::path& path);
  /// To write, in place of what is there. Throws RunError.
  static File create(const std::filesystem::path& path);
  /// The same of a file that others may read at any time, and one that is there, to write on.
  static File create_shared(const std::filesystem::path& path);
  static File open_shared(const std::filesystem::path& path);

  File(File&&) noexcept = default;
  File& operator=(File&&) = delete;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  /// Closes it; what cannot be written any more is lost without a word, see `close`.
  ~File();

  const std::string& name() const { return name_; }
  /// The library's own name of it, for the files beside this one.
  std::int64_t id() const { return handle_.id(); }
  /// Whether there is an object of this absolute path ("/train/images").
  bool has(const std::string& path) const;
  /// Names of what a group holds, in alphabetical order; empty where there is no such group.
  std::vector<std::string> children(const std::string& group) const;
  /// Throws InputError where there is none.
  Dataset dataset(const std::string& path) const;
  /// The only string of a dataset. Throws InputError.
  std::string text(const std::string& path) const;
  /// Makes the groups on the way to it too.
  Dataset create_dataset(const std::string& path, const DatasetLayout& layout);
  /// An array of strings (UTF-8) in one dimension.
  void write_texts(const std::string& path, std::span<const std::string> texts);
  /// A single string, which `text` reads.
  void write_text(const std::string& path, const std::string& text);
  /// Takes an object's name from it, if it is there; its room in the file is lost.
  void remove(const std::string& path);
  /// Makes `path` show an object of another file, which is looked for beside this one.
  void link_to(const std::string& path, const std::string& file, const std::string& object);

  /// The values of an object's attribute, of any shape, row-major; empty where there is none.
  std::optional<std::vector<double>> attribute(const std::string& object,
                                               const std::string& name) const;
  std::optional<std::vector<std::string>> text_attribute(const std::string& object,
                                                         const std::string& name) const;
  /// Sets an attribute, a list of numbers, one number or one string.
  void set_attribute(const std::string& object, const std::string& name,
                     std::span<const double> values);
  void set_attribute(const std::string& object, const std::string& name, std::int64_t value);
  void set_attribute(const std::string& object, const std::string& name, double value);
  void set_attribute(const std::string& object, const std::string& name, const std::string& text);

  /// Hands everything written so far to the operating system.
  void flush();
  /// Closes the file, whose datasets must be gone, and throws RunError where that fails.
  void close();

 private:
  void write_strings(const std::string& path, const Extent& shape,
                     std::span<const std::string> texts);

  File(Handle handle, std::string name) : handle_(std::move(handle)), name_(std::move(name)) {}

  Handle handle_;
  std::string name_;
};

}  // namespace dynpipe::io
