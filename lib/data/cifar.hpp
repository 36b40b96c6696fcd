#pragma once

#include <filesystem>
#include <optional>

#include "data/image_set.hpp"

namespace dynpipe::data {

/// The binary version of CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning multiple layers of features
/// from tiny images", 2009; https://www.cs.toronto.edu/~kriz/cifar.html): records of the label's
/// byte (CIFAR-100: the coarse label's, then the fine one's) and 3,072 bytes of pixels, [3,32,32].
/// CIFAR-10 has its training images in data_batch_1.bin to data_batch_5.bin, its test images in
/// test_batch.bin; CIFAR-100 in train.bin and test.bin. Files may hold any number of records.
enum class Cifar : std::uint8_t { ten, hundred };

/// Which of the two `folder` holds files of, by their names.
std::optional<Cifar> find_cifar(const std::filesystem::path& folder);

/// Looks at the sizes of the files only. Throws InputError naming the file that is missing or whose
/// size is no number of records.
ImageSetHeader inspect_cifar(const std::filesystem::path& folder, Cifar kind, Split split);

/// Reads a split; CIFAR-100's labels are the fine ones. Classes have the names of the text file
/// that comes with them, where it is there. Throws InputError naming file and label.
ImageSet read_cifar(const std::filesystem::path& folder, Cifar kind, Split split);

}  // namespace dynpipe::data
