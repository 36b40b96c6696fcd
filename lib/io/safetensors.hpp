#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/hdf5.hpp"

/// Safetensors files, in which PyTorch users exchange weights: the length of a header (8 bytes), a
/// header in JSON ({name: {dtype, shape, data_offsets}}, and `__metadata__` of texts), then the
/// elements of all tensors, little-endian and row-major, without holes
/// (https://github.com/huggingface/safetensors, "Format").
namespace dynpipe::io {

/// A tensor of such a file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< as the format names it: "F32"
  Extent shape;
  std::uint64_t begin = 0, end = 0;  ///< where its elements lie, in bytes after the header
};

using SafetensorsMetadata = std::map<std::string, std::string>;

struct CloseStream {
  void operator()(std::FILE* stream) const { std::fclose(stream); }
};
using Stream = std::unique_ptr<std::FILE, CloseStream>;

/// A file to read from.
class SafetensorsFile {
 public:
  /// Reads the header. Throws InputError naming file and tensor for anything but a whole, well
  /// formed file: a header longer than the file, a dtype that is not known, offsets outside of the
  /// file or of another size than the shape's, tensors that overlap or leave holes, a name given
  /// twice.
  explicit SafetensorsFile(const std::filesystem::path& file);

  const std::string& name() const { return name_; }
  /// In the order of their data.
  const std::vector<SafetensorsEntry>& tensors() const { return tensors_; }
  /// Null where there is none of this name.
  const SafetensorsEntry* find(std::string_view tensor) const;
  const SafetensorsMetadata& metadata() const { return metadata_; }

  /// Throws InputError unless a tensor's dtype is F64, F32, F16 or BF16.
  void require_numbers(const SafetensorsEntry& tensor) const;
  /// The elements of a tensor of such a dtype; all are exact as double.
  std::vector<double> read(const SafetensorsEntry& tensor) const;

 private:
  void parse(const std::string& header, std::uint64_t data_bytes);
  void check_places(std::uint64_t data_bytes) const;

  std::string name_;
  Stream stream_;
  std::uint64_t data_begin_ = 0;
  std::vector<SafetensorsEntry> tensors_;
  SafetensorsMetadata metadata_;
};

/// A tensor to be written.
struct SafetensorsPlan {
  std::string name;
  std::string dtype;  ///< "F64", "F32" or "I64"
  Extent shape;
};

/// A file that is written, tensor by tensor; it has its name once it is complete. Errors are
/// RunErrors naming the file and the system's reason.
class SafetensorsWriter {
 public:
  /// Writes the header: of all tensors, in the order in which they will come. For readers that map
  /// the file, wide elements come first.
  SafetensorsWriter(const std::filesystem::path& file, const std::vector<SafetensorsPlan>& tensors,
                    const SafetensorsMetadata& metadata);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// The elements of the next tensor. Throws std::logic_error where they are of another number or
  /// type than announced.
  template <Numeric T>
  void write(std::span<const T> values) {
    write(element_of<T>(), std::as_bytes(values));
  }
  /// Syncs the file and gives it its name.
  void complete();

 private:
  void write(Element element, std::span<const std::byte> bytes);
  void discard();
  [[noreturn]] void fail(int error);

  std::filesystem::path file_, partial_;
  Stream stream_;
  std::vector<SafetensorsPlan> left_;  ///< the next one last
};

}  // namespace dynpipe::io
