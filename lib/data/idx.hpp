#pragma once

#include <filesystem>

#include "data/image_set.hpp"

namespace dynpipe::data {

/// An IDX file of images and the one of their labels. The format (LeCun, Cortes, Burges, "The MNIST
/// database", http://yann.lecun.com/exdb/mnist): big-endian words - a magic number, then each
/// dimension - and the bytes, row-major.
struct IdxPair {
  std::filesystem::path images;
  std::filesystem::path labels;
};

/// The pair that `folder` holds for `split`, under the names that MNIST and Fashion-MNIST have:
/// {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte, plain or, failing that, with
/// .gz after it. Throws InputError that says what was looked for.
IdxPair find_idx_pair(const std::filesystem::path& folder, Split split);

/// Reads both headers only and checks them against each other and against the sizes of the files.
/// Throws InputError.
ImageSetHeader inspect_idx_pair(const IdxPair& pair);

/// Reads both files. Throws InputError that names file and field for whatever is wrong with them;
/// memory is claimed only as the files prove to hold what their headers announce.
ImageSet read_idx_pair(const IdxPair& pair);

/// The two steps in one: the pair that `folder` holds for `split`, read.
ImageSet load_image_set(const std::filesystem::path& folder, Split split);

}  // namespace dynpipe::data
