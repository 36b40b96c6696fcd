#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace dynpipe::data {

struct PictureFile {
  std::filesystem::path path;
  std::int32_t label = 0;
};

/// Pictures sorted into folders by their class.
struct PictureFolder {
  std::vector<std::string> classes;      ///< by name; their numbers are labels
  std::vector<PictureFile> train, test;  ///< training pictures in random order
};

/// Whether `folder` is laid out so: train/CLASS/PICTURE or CLASS/PICTURE, pictures being files that
/// end in .jpg, .jpeg or .png.
bool holds_pictures(const std::filesystem::path& folder);

/// Finds them in FOLDER/train and FOLDER/test, or FOLDER/val where there is no test. Where there is
/// neither, or no train, that share of each class is test, `test_fraction`, above 0 and below 1.
/// What is random is a function of `seed` and the names. Throws InputError for classes without
/// training pictures, for test pictures of other classes, and where the fraction is missing or not
/// needed.
PictureFolder find_pictures(const std::filesystem::path& folder,
                            std::optional<double> test_fraction, std::uint64_t seed);

}  // namespace dynpipe::data
