#include "data/data_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/errors.hpp"
#include "data/cifar.hpp"
#include "data/hdf5_images.hpp"
#include "data/idx.hpp"

namespace dynpipe::data {
namespace {

namespace fs = std::filesystem;

bool holds_idx(const fs::path& folder) {
  for (const char* split : {"train", "t10k"}) {
    for (const char* contents : {"-images-idx3-ubyte", "-labels-idx1-ubyte"}) {
      for (const char* ending : {"", ".gz"}) {
        std::error_code ignored;
        if (fs::exists(folder / fmt::format("{}{}{}", split, contents, ending), ignored)) {
          return true;
        }
      }
    }
  }
  return false;
}

/// What may be meant by a folder that holds no data set.
std::string hint(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string ending = entry.path().extension().string();
    if (ending == ".h5" || ending == ".hdf5") {
      return fmt::format("; {} may be one", entry.path().string());
    }
  }
  return "";
}

[[noreturn]] void refuse_folder(const fs::path& folder) {
  std::error_code ignored;
  const bool there = fs::exists(folder, ignored);
  throw base::InputError(
      folder.string(), there ? "folder" : "data set",
      fmt::format("{}; it should be an HDF5 file or a folder with IDX files "
                  "(train-images-idx3-ubyte ...) or CIFAR's (data_batch_1.bin ... or train.bin "
                  "...){}",
                  there ? "holds no known data set" : "does not exist", hint(folder)));
}

}  // namespace

ShuffleWindow shuffle_window(const ImageSource& source) {
  const std::int64_t block = source.block_images();
  if (block == 0 || source.size() <= block * source.most_blocks()) return {};
  return {block, std::max<std::int64_t>(1, source.most_blocks() / 2)};
}

SplitFacts inspect_images(const fs::path& place, Split split, std::size_t memory_bytes) {
  std::error_code ignored;
  if (fs::is_directory(place, ignored)) {
    if (const auto kind = find_cifar(place)) return {inspect_cifar(place, *kind, split), {}, {}};
    if (holds_idx(place)) return {inspect_idx_pair(find_idx_pair(place, split)), {}, {}};
  }
  const std::unique_ptr<ImageSource> source = open_images(place, split, memory_bytes);
  const ImageSource::Facts& facts = source->facts();
  return {{source->size(), facts.image}, shuffle_window(*source), facts.normalisation};
}

std::unique_ptr<ImageSource> open_images(const fs::path& place, Split split,
                                         std::size_t memory_bytes) {
  std::error_code ignored;
  if (fs::is_regular_file(place, ignored)) return open_hdf5_images(place, split, memory_bytes);
  if (!fs::is_directory(place, ignored)) refuse_folder(place);
  if (const auto kind = find_cifar(place)) {
    return make_memory_source(read_cifar(place, *kind, split), place.string(), place.string(),
                              *kind == Cifar::ten ? "CIFAR-10" : "CIFAR-100");
  }
  if (!holds_idx(place)) refuse_folder(place);
  const IdxPair pair = find_idx_pair(place, split);
  return make_memory_source(read_idx_pair(pair), pair.images.string(), pair.labels.string(), "IDX");
}

}  // namespace dynpipe::data
