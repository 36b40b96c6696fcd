#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "io/hdf5.hpp"

namespace dynpipe::testing {

/// Writes an HDF5 file of images as data/README.md describes it; each test changes what it is
/// about.
struct Hdf5Images {
  io::Extent shape = {10, 2, 3, 4};
  io::Extent chunk{};  ///< of images; empty: in one piece
  io::Element element = io::Element::uint8;
  std::int64_t classes = 3;
  std::uint64_t seed = 1;

  /// Pixel `i` of the split, 0..255.
  std::uint8_t pixel(std::uint64_t i) const;
  std::vector<std::int64_t> labels() const;
  /// Writes GROUP/images and GROUP/labels ("/train").
  void write(io::File& file, const std::string& group) const;
  /// A file with both splits alike.
  void write(const std::filesystem::path& path) const;
};

}  // namespace dynpipe::testing
