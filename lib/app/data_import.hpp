#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dynpipe::app {

/// What `dynpipe data import` was asked to do.
struct ImportOptions {
  struct Size {
    std::int64_t height, width;
  };
  std::string source;  ///< folder of pictures, or any data set
  std::string file;    ///< HDF5, to write
  std::optional<Size> size;
  bool stretch = false;  ///< to the size, instead of cutting off what is too long
  bool grey = false;
  std::optional<double> test_fraction;
  bool skip_bad = false;
  bool overwrite = false;
  std::uint64_t seed = 1;
  int threads = 1;
};

/// Text of `dynpipe data import --help`.
std::string import_help();

/// Reads the words after `import`. Empty if --help was asked for. Throws InputError naming the
/// option.
std::optional<ImportOptions> parse_import_options(const std::vector<std::string>& words);

/// Makes the file, and tells on standard output how far it is. Throws InputError that names
/// pictures which cannot be read, up to ten, and counts them all.
void import_data(const ImportOptions& options);

}  // namespace dynpipe::app
