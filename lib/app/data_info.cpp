#include "app/data_info.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <sstream>

#include "app/option_group.hpp"
#include "app/option_parser.hpp"
#include "base/errors.hpp"
#include "data/data_set.hpp"

namespace dynpipe::app {
namespace {

namespace po = boost::program_options;
using data::ImageSource;
using data::Split;

constexpr std::size_t k_memory_bytes = std::size_t{64} << 20U;
constexpr std::int64_t k_most_images = 99;
constexpr std::size_t k_columns = 80;
/// Classes told one by one; more are summed up.
constexpr std::int64_t k_most_classes = 120;

OptionGroup describe(InfoOptions& o) {
  OptionGroup group("Options");
  option(group, "images", &o.images, "N", "training images to draw, evenly from all");
  flag(group, "check", &o.check,
       "read every image of an HDF5 file, which also measures its pixels exactly");
  group.add_options()("help", "this text");
  return group;
}

/// Mean and deviation of a split's pixels, and of how many images.
struct Measured {
  data::Normalisation pixels;
  std::int64_t images;
};

/// Of all images where they are in memory or `check` says so, else of as many as fit the memory.
Measured measure(ImageSource& source, bool check) {
  std::int64_t images = source.size();
  if (source.block_images() > 0 && !check) {
    images = std::min(images, std::max<std::int64_t>(1, source.block_images()) *
                                  std::max<std::int64_t>(1, source.most_blocks() / 2));
  }
  return {data::measure_normalisation(source, images), images};
}

std::string list(const std::vector<double>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size() && i < 4; ++i) {
    text += fmt::format("{}{:.4f}", i > 0 ? " " : "", values[i]);
  }
  return values.size() > 4 ? text + " ..." : text;
}

std::string describe_splits(ImageSource& train, ImageSource& test, bool check) {
  std::string text =
      fmt::format("{:<6}{:>10}{:>10}   {:<28}{}\n", "split", "images", "MiB", "mean", "deviation");
  std::string note;
  for (const auto& [name, source] : {std::pair{"train", &train}, std::pair{"test", &test}}) {
    const Measured measured = measure(*source, check);
    const double mebibytes = static_cast<double>(source->size()) *
                             static_cast<double>(source->image_bytes()) / (1U << 20U);
    text += fmt::format("{:<6}{:>10}{:>10.1f}   {:<28}{}\n", name, source->size(), mebibytes,
                        list(measured.pixels.mean), list(measured.pixels.deviation));
    if (measured.images < source->size()) {
      note += fmt::format("{}: mean and deviation of the first {} images; --check reads all\n",
                          name, measured.images);
    }
  }
  return text + note;
}

std::vector<std::int64_t> counts_of(const ImageSource& source, std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes), 0);
  for (std::int32_t label : source.facts().labels) ++counts[static_cast<std::size_t>(label)];
  return counts;
}

std::string class_name(const ImageSource& train, std::size_t label) {
  const auto& names = train.facts().class_names;
  return label < names.size() ? fmt::format("{} {}", label, names[label])
                              : fmt::format("{}", label);
}

std::string shortened(const std::string& text, std::size_t most) {
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

std::string summed_up(const char* split, std::vector<std::int64_t> counts) {
  std::sort(counts.begin(), counts.end());
  return fmt::format("{:<6} {} to {} images a class, half of them at least {}\n", split,
                     counts.front(), counts.back(), counts[counts.size() / 2]);
}

/// A table of counts, as many classes side by side as fit.
std::string describe_classes(const ImageSource& train, const ImageSource& test) {
  const std::int64_t classes = std::max(train.facts().classes, test.facts().classes);
  const auto in_train = counts_of(train, classes);
  const auto in_test = counts_of(test, classes);
  if (classes > k_most_classes) return summed_up("train", in_train) + summed_up("test", in_test);

  const auto count = static_cast<std::size_t>(classes);
  std::size_t name_columns = 5;
  for (std::size_t label = 0; label < count; ++label) {
    name_columns =
        std::max(name_columns, std::min<std::size_t>(class_name(train, label).size(), 24));
  }
  const std::size_t cell = name_columns + 8 + 8;
  const std::size_t most_beside = std::max<std::size_t>(1, (k_columns + 3) / (cell + 3));
  const std::size_t beside = count <= 12 ? 1 : std::min(most_beside, (count + 11) / 12);
  const std::size_t rows = (count + beside - 1) / beside;
  std::string text;
  const auto add_row = [&](auto&& cell_text) {
    std::string line;
    for (std::size_t column = 0; column < beside; ++column) {
      line += fmt::format("{}{:<{}}", column > 0 ? "   " : "", cell_text(column), cell);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_row([&](std::size_t) {
    return fmt::format("{:<{}}{:>8}{:>8}", "class", name_columns, "train", "test");
  });
  for (std::size_t row = 0; row < rows; ++row) {
    add_row([&](std::size_t column) {
      const std::size_t label = column * rows + row;
      if (label >= count) return std::string();
      return fmt::format("{:<{}}{:>8}{:>8}", shortened(class_name(train, label), name_columns),
                         name_columns, in_train[label], in_test[label]);
    });
  }
  return text;
}

/// An image to look at: bytes as they are, numbers stretched from least to most.
data::Picture picture_of(ImageSource& source, std::int64_t index) {
  const ImageSource::Facts& facts = source.facts();
  const int channels = facts.image[0] >= 3 ? 3 : 1;
  data::Picture picture{facts.image[1], facts.image[2], channels, {}};
  const auto plane = static_cast<std::size_t>(picture.height * picture.width);
  picture.pixels.resize(plane * static_cast<std::size_t>(channels));
  const std::span<const std::byte> bytes = source.pixels_of(index);
  float least = 0, most = 255;
  const auto numbers = data::pixels_as<float>(bytes);
  if (facts.pixels == data::PixelType::float32) {
    least = *std::min_element(numbers.begin(), numbers.end());
    most = std::max(*std::max_element(numbers.begin(), numbers.end()),
                    std::nextafter(least, std::numeric_limits<float>::max()));
  }
  for (std::size_t i = 0; i < picture.pixels.size(); ++i) {
    const std::size_t from =
        i % static_cast<std::size_t>(channels) * plane + i / static_cast<std::size_t>(channels);
    picture.pixels[i] =
        facts.pixels == data::PixelType::uint8
            ? static_cast<std::uint8_t>(bytes[from])
            : static_cast<std::uint8_t>(255 * ((numbers[from] - least) / (most - least)));
  }
  return picture;
}

std::string describe_images(ImageSource& train, std::int64_t count, Colours colours) {
  count = std::min(count, train.size());
  std::vector<data::Picture> pictures;
  std::vector<std::string> captions;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = i * train.size() / count;
    pictures.push_back(picture_of(train, index));
    const auto label =
        static_cast<std::size_t>(train.facts().labels[static_cast<std::size_t>(index)]);
    captions.push_back(fmt::format("[{}] {}", index, class_name(train, label)));
  }
  return draw_gallery(pictures, captions, colours);
}

}  // namespace

std::string info_help() {
  InfoOptions options;
  std::ostringstream text;
  text << "usage: dynpipe data info PLACE [options]\n\n"
          "Describes a data set (data/README.md): format, shapes, pixels, classes, some images.\n\n"
       << describe(options)
       << "\nExit codes: 0 sound, as far as was looked; 2 not, or wrong usage.\n";
  return text.str();
}

std::optional<InfoOptions> parse_info_options(const std::vector<std::string>& words) {
  InfoOptions options;
  OptionGroup all;
  all.add(describe(options)).add_options()("place", po::value(&options.place), "");
  po::positional_options_description places;
  places.add("place", 1);
  if (!parse_words("data info", words, all, places)) return std::nullopt;
  if (options.place.empty()) {
    throw base::InputError("", "PLACE", "is missing; see dynpipe data info --help");
  }
  if (options.images < 0 || options.images > k_most_images) {
    throw base::InputError("", "--images",
                           fmt::format("must be 0 to {}, is {}", k_most_images, options.images));
  }
  return options;
}

std::string describe_data(const InfoOptions& options, Colours colours) {
  const auto train = data::open_images(options.place, Split::train, k_memory_bytes);
  const auto test = data::open_images(options.place, Split::test, k_memory_bytes);
  const ImageSource::Facts& facts = train->facts();
  std::string text = fmt::format(
      "{}: {}, images {} of {}, {} classes\n", options.place, facts.format, facts.image.to_string(),
      facts.pixels == data::PixelType::uint8 ? "uint8" : "float32", facts.classes);
  if (!(test->facts().image == facts.image)) {
    throw base::InputError(test->facts().images_place, "",
                           fmt::format("has images {}, those to train on are {}",
                                       test->facts().image.to_string(), facts.image.to_string()));
  }
  text += "\n" + describe_splits(*train, *test, options.check);
  text += "\n" + describe_classes(*train, *test);
  if (options.images > 0) text += "\n" + describe_images(*train, options.images, colours);
  return text;
}

}  // namespace dynpipe::app
