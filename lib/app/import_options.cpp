#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>
#include <thread>

#include "app/data_import.hpp"
#include "app/option_group.hpp"
#include "app/option_parser.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

namespace po = boost::program_options;
using base::InputError;

constexpr std::int64_t k_most_side = 1 << 14;
constexpr int k_most_threads = 256;

struct Raw {
  std::string size, fit = "crop";
  std::int64_t seed = 1;
};

OptionGroup describe(ImportOptions& o, Raw& raw) {
  OptionGroup group("Options");
  option(group, "size", &raw.size, "HxW",
         "pixels of the images to make (default: those of the pictures, all alike)");
  option(group, "fit", &raw.fit, "HOW",
         "crop: scale until the size is covered and cut it from the middle; stretch: scale each "
         "side by itself");
  flag(group, "gray", &o.grey, "make images of one channel, brightness");
  option(group, "test-fraction", &o.test_fraction, "X",
         "share of each class to test on, where SOURCE has no folder test or val");
  option(group, "seed", &raw.seed, "N", "of that choice and of the order of the training images");
  flag(group, "skip-bad", &o.skip_bad, "leave out pictures that cannot be used");
  flag(group, "overwrite", &o.overwrite, "replace FILE.h5 if it is there");
  option(group, "threads", &o.threads, "N", "that decode pictures");
  group.add_options()("help", "this text");
  return group;
}

ImportOptions::Size parse_size(const std::string& text) {
  ImportOptions::Size size{};
  const auto number = [](std::string_view digits, std::int64_t& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() && value >= 1 &&
           value <= k_most_side;
  };
  const std::size_t by = text.find('x');
  if (by == std::string::npos || !number(std::string_view(text).substr(0, by), size.height) ||
      !number(std::string_view(text).substr(by + 1), size.width)) {
    throw InputError("", "--size",
                     fmt::format("'{}' is not a height and a width such as 64x64, each 1 to {}",
                                 text, k_most_side));
  }
  return size;
}

void translate(const Raw& raw, ImportOptions& o) {
  if (!raw.size.empty()) o.size = parse_size(raw.size);
  if (raw.fit != "crop" && raw.fit != "stretch") {
    throw InputError("", "--fit",
                     fmt::format("'{}' is not known; known are crop, stretch", raw.fit));
  }
  o.stretch = raw.fit == "stretch";
  if (o.stretch && !o.size) throw InputError("", "--fit", "means nothing without --size");
  if (o.test_fraction && !(*o.test_fraction > 0 && *o.test_fraction < 1)) {
    throw InputError("", "--test-fraction",
                     fmt::format("must be above 0 and below 1, is {}", *o.test_fraction));
  }
  if (raw.seed < 0) {
    throw InputError("", "--seed", fmt::format("must be at least 0, is {}", raw.seed));
  }
  o.seed = static_cast<std::uint64_t>(raw.seed);
  if (o.threads < 1 || o.threads > k_most_threads) {
    throw InputError("", "--threads",
                     fmt::format("must be 1 to {}, is {}", k_most_threads, o.threads));
  }
}

ImportOptions defaults() {
  ImportOptions options;
  options.threads =
      std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, k_most_threads);
  return options;
}

}  // namespace

std::string import_help() {
  ImportOptions options = defaults();
  Raw raw;
  std::ostringstream text;
  text << "usage: dynpipe data import SOURCE FILE.h5 [options]\n\n"
          "Makes an HDF5 data set (data/README.md has its schema) of pictures in folders,\n"
          "SOURCE/train/CLASS/*.{jpg,jpeg,png} and the same in test or val, or SOURCE/CLASS/*\n"
          "with --test-fraction; or of any data set that `dynpipe train` reads, as it is.\n\n"
       << describe(options, raw)
       << "\nExit codes: 0 written, 1 it cannot be written, 2 wrong usage or input.\n";
  return text.str();
}

std::optional<ImportOptions> parse_import_options(const std::vector<std::string>& words) {
  ImportOptions options = defaults();
  Raw raw;
  OptionGroup all;
  all.add(describe(options, raw))
      .add_options()("source", po::value(&options.source), "")("file", po::value(&options.file),
                                                               "");
  po::positional_options_description places;
  places.add("source", 1).add("file", 1);
  if (!parse_words("data import", words, all, places)) return std::nullopt;
  if (options.source.empty())
    throw InputError("", "SOURCE", "is missing; see dynpipe data import --help");
  if (options.file.empty())
    throw InputError("", "FILE.h5", "is missing; see dynpipe data import --help");
  translate(raw, options);
  return options;
}

}  // namespace dynpipe::app
