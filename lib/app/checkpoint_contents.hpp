#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"
#include "io/hdf5.hpp"
#include "tensor/tensor.hpp"

namespace dynpipe::app {

/// A tensor in a shard.
struct ShardTensor {
  std::string path;  ///< "/model/conv1/weight"
  tensor::DType dtype = tensor::DType::float32;
  base::Shape shape;
};

/// Throws InputError naming file and tensor where it is no float32 or float64 of four dimensions at
/// most.
ShardTensor describe_tensor(const io::Dataset& dataset);

/// The groups of a shard that hold layers: "/model", "/versions/399", "/optimizer/momentum_buffer".
std::vector<std::string> layer_groups(const io::File& shard);

/// Reads a tensor and compares its checksum; the elements, row-major. Throws InputError.
std::vector<std::byte> read_checked(const io::File& shard, const ShardTensor& tensor);

/// "4.61 MB"
std::string size_text(std::uint64_t bytes);

/// What is wrong with a checkpoint; empty if nothing is. `all`: reads every byte, compares every
/// digest and every tensor's checksum, follows every link of the index; else looks at the index and
/// at the sizes of the other files.
std::vector<std::string> problems_of(const std::filesystem::path& path, bool all);

}  // namespace dynpipe::app
