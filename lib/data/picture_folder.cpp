#include "data/picture_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "base/errors.hpp"
#include "base/random.hpp"

namespace dynpipe::data {
namespace {

namespace fs = std::filesystem;
using base::InputError;

bool is_picture(const fs::directory_entry& entry) {
  std::string ending = entry.path().extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return (ending == ".jpg" || ending == ".jpeg" || ending == ".png") && entry.is_regular_file();
}

/// Entries of a folder, by name.
std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->path().filename().string().starts_with('.')) entries.push_back(*entry);
  }
  if (error) throw InputError(folder.string(), "folder", error.message());
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::vector<std::string> class_names(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : entries_of(folder)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  return names;
}

std::vector<PictureFile> pictures_in(const fs::path& folder, std::int64_t label) {
  std::vector<PictureFile> pictures;
  for (const fs::directory_entry& entry : entries_of(folder)) {
    if (is_picture(entry)) {
      pictures.push_back({entry.path(), static_cast<std::int32_t>(label)});
    }
  }
  return pictures;
}

void shuffle(std::vector<PictureFile>& pictures, const base::Philox& random) {
  for (std::size_t last = pictures.size(); last > 1; --last) {
    std::swap(pictures[last - 1], pictures[random.below(last, last)]);
  }
}

void append(std::vector<PictureFile>& all, std::vector<PictureFile>::const_iterator begin,
            std::vector<PictureFile>::const_iterator end) {
  all.insert(all.end(), begin, end);
}

/// Reads the classes of `folder`, setting aside `test_fraction` of each.
void read_classes(const fs::path& folder, double test_fraction, std::uint64_t seed,
                  PictureFolder& found) {
  found.classes = class_names(folder);
  if (found.classes.empty()) {
    throw InputError(folder.string(), "folder", "has no folders of pictures, one for each class");
  }
  for (std::int64_t label = 0; label < std::ssize(found.classes); ++label) {
    const fs::path of_class = folder / found.classes[static_cast<std::size_t>(label)];
    std::vector<PictureFile> pictures = pictures_in(of_class, label);
    if (test_fraction > 0) {
      shuffle(pictures, base::Philox(seed, "test", static_cast<std::uint64_t>(label)));
    }
    const auto aside = static_cast<std::ptrdiff_t>(
        std::lround(test_fraction * static_cast<double>(pictures.size())));
    if (aside >= std::ssize(pictures)) {
      throw InputError(of_class.string(), "folder",
                       fmt::format("has {} pictures (.jpg, .jpeg, .png), none is left to train on",
                                   pictures.size()));
    }
    append(found.test, pictures.begin(), pictures.begin() + aside);
    append(found.train, pictures.begin() + aside, pictures.end());
  }
}

void read_test(const fs::path& folder, PictureFolder& found) {
  for (const std::string& name : class_names(folder)) {
    const auto known = std::find(found.classes.begin(), found.classes.end(), name);
    if (known == found.classes.end()) {
      throw InputError((folder / name).string(), "class",
                       "is not among those of the training pictures");
    }
    const auto pictures = pictures_in(folder / name, known - found.classes.begin());
    append(found.test, pictures.begin(), pictures.end());
  }
}

}  // namespace

bool holds_pictures(const fs::path& folder) {
  std::error_code ignored;
  const fs::path top = fs::is_directory(folder / "train", ignored) ? folder / "train" : folder;
  for (const auto& entry : fs::directory_iterator(top, ignored)) {
    if (!entry.is_directory(ignored)) continue;
    const auto files = fs::directory_iterator(entry.path(), ignored);
    if (std::any_of(begin(files), end(files), is_picture)) return true;
  }
  return false;
}

PictureFolder find_pictures(const fs::path& folder, std::optional<double> test_fraction,
                            std::uint64_t seed) {
  std::error_code ignored;
  const bool split = fs::is_directory(folder / "train", ignored);
  const fs::path test =
      fs::is_directory(folder / "test", ignored) ? folder / "test" : folder / "val";
  const bool has_test = split && fs::is_directory(test, ignored);
  if (has_test && test_fraction) {
    throw InputError("", "--test-fraction",
                     fmt::format("is not needed: {} has the test pictures", test.string()));
  }
  if (!has_test && !test_fraction) {
    throw InputError("", "--test-fraction",
                     fmt::format("is missing: {} has no folder train with test or val beside it",
                                 folder.string()));
  }
  PictureFolder found;
  read_classes(split ? folder / "train" : folder, test_fraction.value_or(0), seed, found);
  if (has_test) read_test(test, found);
  if (found.test.empty()) {
    throw InputError(folder.string(), "folder", "has no test pictures");
  }
  shuffle(found.train, base::Philox(seed, "import"));
  return found;
}

}  // namespace dynpipe::data
