#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/shape.hpp"
#include "data/image_source.hpp"
#include "data/normalisation.hpp"
#include "io/hdf5.hpp"

namespace dynpipe::data {

/// Writes an HDF5 file as open_hdf5_images reads it, under a temporary name beside its own, which
/// it gets when all is there; what is not finished is removed. Throws RunError where it cannot be
/// written.
class Hdf5ImageWriter {
 public:
  explicit Hdf5ImageWriter(const std::filesystem::path& file);
  ~Hdf5ImageWriter();
  Hdf5ImageWriter(const Hdf5ImageWriter&) = delete;
  Hdf5ImageWriter& operator=(const Hdf5ImageWriter&) = delete;

  /// Begins a split, after ending the one before; `image` is [C,H,W].
  void begin(Split split, const base::Shape& image, PixelType pixels);
  /// The next image of the split, as ImageSource gives it, and its label.
  void add(std::span<const std::byte> pixels, std::int32_t label);
  /// Images of the split so far.
  std::int64_t count() const { return static_cast<std::int64_t>(labels_.size()); }
  /// Ends the last split, writes the names, if any, and gives the file its name.
  void finish(std::span<const std::string> class_names);

 private:
  void write_rows();
  void end_split();

  std::filesystem::path name_, temporary_;
  std::optional<io::File> file_;
  Split split_ = Split::train;
  PixelType pixels_ = PixelType::uint8;
  std::optional<io::Dataset> images_;  ///< of the split under way
  std::optional<PixelStatistics> statistics_;
  std::vector<std::byte> rows_;  ///< that are not written yet, fewer than a chunk
  std::size_t chunk_bytes_ = 0, image_bytes_ = 0;
  std::uint64_t rows_written_ = 0;
  std::vector<std::int32_t> labels_;
};

}  // namespace dynpipe::data
