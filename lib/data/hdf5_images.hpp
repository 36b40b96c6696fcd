#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

#include "data/image_source.hpp"

namespace dynpipe::data {

/// Where a split's arrays lie in a file, and what else may be there (data/README.md has the whole
/// schema).
struct Hdf5Names {
  static Hdf5Names of(Split split);
  std::string images, labels;
  static constexpr const char* k_classes = "/classes";  ///< dataset, or attribute of "/"
  static constexpr const char* k_mean = "mean";         ///< attributes of the training images
  static constexpr const char* k_deviation = "deviation";
};

/// A split of an HDF5 file whose images are read block by block, so it may be larger than memory.
/// A block is a whole number of the file's chunks, at least about a megabyte. No more than
/// `memory_bytes` of blocks are held (0: two of them), and all stay where all fit; which one leaves
/// first is told by `use_blocks`, else the one that was read first.
/// Throws InputError naming file and dataset for whatever is missing, of another type or shape, or
/// cut off.
std::unique_ptr<ImageSource> open_hdf5_images(const std::filesystem::path& path, Split split,
                                              std::size_t memory_bytes);

}  // namespace dynpipe::data
