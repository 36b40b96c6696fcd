#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>

#include "data/image_source.hpp"
#include "data/sample_order.hpp"

namespace dynpipe::data {

/// What is known of a split before its images are read.
struct SplitFacts {
  ImageSetHeader header;
  ShuffleWindow shuffle;                       ///< for reading it within the memory it may take
  std::optional<Normalisation> normalisation;  ///< of the training split, where files state it
};

/// Looks at what `place` holds of a split: an HDF5 file, or a folder with IDX pairs or CIFAR's
/// binary files, told by their names. `memory_bytes`: what blocks of an HDF5 file may take; see
/// open_images. Throws InputError naming file and field.
SplitFacts inspect_images(const std::filesystem::path& place, Split split,
                          std::size_t memory_bytes);

/// The split's images: those of folders in memory, those of an HDF5 file read block by block in
/// `memory_bytes` (see open_hdf5_images). Throws InputError naming file and field.
std::unique_ptr<ImageSource> open_images(const std::filesystem::path& place, Split split,
                                         std::size_t memory_bytes);

/// The window in which a source can be shuffled: half the blocks it may hold, so that the next
/// window's are read meanwhile, or the whole set where it may hold that.
ShuffleWindow shuffle_window(const ImageSource& source);

}  // namespace dynpipe::data
