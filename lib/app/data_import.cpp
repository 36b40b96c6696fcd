#include "app/data_import.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/errors.hpp"
#include "data/data_set.hpp"
#include "data/hdf5_writer.hpp"
#include "data/picture.hpp"
#include "data/picture_folder.hpp"
#include "data/resize.hpp"

namespace dynpipe::app {
namespace {

using base::InputError;
using data::Split;

constexpr std::size_t k_named_failures = 10;
/// Pictures decoded between two writes, for each thread.
constexpr std::size_t k_batch = 16;
constexpr std::size_t k_memory_bytes = std::size_t{64} << 20U;

const char* name_of(Split split) {
  return split == Split::train ? "train" : "test";
}

/// One line that is written over on a terminal, else a line every few seconds.
class ImportProgress {
 public:
  void show(Split split, std::int64_t done, std::int64_t all) {
    const double now_s = clock_.now_s();
    if (now_s - shown_s_ < (terminal_ ? 0.1 : 10.0)) return;
    shown_s_ = now_s;
    fmt::print("{}{:<5}  {:>{}}/{} images  {:3.0f} %{}", terminal_ ? "\r\x1b[K" : "",
               name_of(split), done, fmt::formatted_size("{}", all), all,
               100.0 * static_cast<double>(done) / static_cast<double>(all), terminal_ ? "" : "\n");
    std::fflush(stdout);
    open_ = terminal_;
  }
  ~ImportProgress() {
    if (open_) fmt::print("\r\x1b[K");
    std::fflush(stdout);
  }

 private:
  base::SteadyClock clock_;
  bool terminal_ = isatty(STDOUT_FILENO) != 0;
  bool open_ = false;
  double shown_s_ = clock_.now_s();
};

/// A picture as it will be written, or why not.
struct Decoded {
  data::Picture picture;
  std::string problem;
};

Decoded decode(const data::PictureFile& file, const ImportOptions& options) {
  Decoded result;
  try {
    result.picture = data::read_picture(file.path);
    if (options.grey) result.picture = data::to_grey(result.picture);
    if (options.size) {
      const auto [height, width] = *options.size;
      result.picture = options.stretch ? data::resize(result.picture, height, width)
                                       : data::resize_and_crop(result.picture, height, width);
    }
  } catch (const InputError& error) {
    result.problem = error.what();
  } catch (const std::exception& error) {  // memory, above all
    result.problem = fmt::format("{}: {}", file.path.string(), error.what());
  }
  return result;
}

base::Shape shape_of(const data::Picture& picture) {
  return {picture.channels, picture.height, picture.width};
}

/// Of most of the pictures that could be decoded.
base::Shape usual_shape(std::span<const Decoded> decoded) {
  std::map<std::string, std::pair<int, base::Shape>> votes;
  for (const Decoded& one : decoded) {
    if (!one.problem.empty()) continue;
    const base::Shape shape = shape_of(one.picture);
    auto& [count, of] = votes[shape.to_string()];
    ++count;
    of = shape;
  }
  std::pair<int, base::Shape> most{0, {}};
  for (const auto& [text, vote] : votes) {
    if (vote.first > most.first) most = vote;
  }
  return most.second;
}

/// All of `files`, decoded by so many threads.
std::vector<Decoded> decode_all(std::span<const data::PictureFile> files,
                                const ImportOptions& options) {
  std::vector<Decoded> results(files.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < files.size(); i = next++)
      results[i] = decode(files[i], options);
  };
  std::vector<std::jthread> others;
  for (int t = 1; t < options.threads; ++t) others.emplace_back(work);
  work();
  others.clear();
  return results;
}

/// [H,W,C] to [C,H,W]
std::vector<std::uint8_t> planes_of(const data::Picture& picture) {
  const auto channels = static_cast<std::size_t>(picture.channels);
  const std::size_t plane = picture.pixels.size() / channels;
  std::vector<std::uint8_t> planes(picture.pixels.size());
  for (std::size_t i = 0; i < plane; ++i) {
    for (std::size_t c = 0; c < channels; ++c) {
      planes[c * plane + i] = picture.pixels[i * channels + c];
    }
  }
  return planes;
}

/// Writes pictures until one is bad that may not be, then only looks for others of those.
class PictureImport {
 public:
  PictureImport(const ImportOptions& options, data::Hdf5ImageWriter& writer)
      : options_(options), writer_(writer) {}

  /// Returns how many were written.
  std::int64_t take(Split split, std::span<const data::PictureFile> files) {
    std::int64_t written = 0;
    const std::size_t batch = k_batch * static_cast<std::size_t>(options_.threads);
    bool begun = false;
    for (std::size_t first = 0; first < files.size(); first += batch) {
      const auto part = files.subspan(first, std::min(batch, files.size() - first));
      const std::vector<Decoded> decoded = decode_all(part, options_);
      if (shape_.rank() == 0) shape_ = usual_shape(decoded);
      for (std::size_t i = 0; i < part.size(); ++i) {
        if (!accept(part[i], decoded[i]) || !writing()) continue;
        if (!std::exchange(begun, true)) writer_.begin(split, shape_, data::PixelType::uint8);
        const std::vector<std::uint8_t> planes = planes_of(decoded[i].picture);
        writer_.add(std::as_bytes(std::span(planes)), part[i].label);
        ++written;
      }
      progress_.show(split, static_cast<std::int64_t>(first + part.size()), std::ssize(files));
    }
    if (written == 0 && writing()) {
      throw InputError(options_.source, name_of(split), "no picture is left");
    }
    return written;
  }

  std::int64_t bad() const { return bad_; }
  const base::Shape& shape() const { return shape_; }
  void check() const {
    if (writing()) return;
    std::string names;
    for (const std::string& problem : problems_) names += "\n  " + problem;
    if (bad_ > std::ssize(problems_)) {
      names += fmt::format("\n  and {} more", bad_ - std::ssize(problems_));
    }
    throw InputError(options_.source, "",
                     fmt::format("{} of {} pictures cannot be used (--skip-bad leaves them out):{}",
                                 bad_, seen_, names));
  }

 private:
  bool writing() const { return bad_ == 0 || options_.skip_bad; }

  /// Whether the picture is whole and of the usual size.
  bool accept(const data::PictureFile& file, const Decoded& decoded) {
    ++seen_;
    std::string problem = decoded.problem;
    const data::Picture& picture = decoded.picture;
    if (problem.empty() && !(shape_of(picture) == shape_)) {
      problem =
          fmt::format("{}: has {} x {} pixels, others {} x {}: --size makes them alike",
                      file.path.string(), picture.height, picture.width, shape_[1], shape_[2]);
    }
    if (problem.empty()) return true;
    ++bad_;
    if (problems_.size() < k_named_failures) problems_.push_back(problem);
    return false;
  }

  const ImportOptions& options_;
  data::Hdf5ImageWriter& writer_;
  ImportProgress progress_;
  base::Shape shape_;
  std::int64_t seen_ = 0, bad_ = 0;
  std::vector<std::string> problems_;
};

void tell(const ImportOptions& options, std::int64_t train, std::int64_t test,
          const base::Shape& image, std::size_t classes) {
  fmt::print("{}: {} training and {} test images {}, {} classes, {:.1f} MiB\n", options.file, train,
             test, image.to_string(), classes,
             static_cast<double>(std::filesystem::file_size(options.file)) / (1U << 20U));
}

void import_pictures(const ImportOptions& options) {
  const data::PictureFolder folder =
      data::find_pictures(options.source, options.test_fraction, options.seed);
  data::Hdf5ImageWriter writer(options.file);
  std::int64_t train = 0, test = 0, bad = 0;
  base::Shape image;
  {
    PictureImport pictures(options, writer);
    train = pictures.take(Split::train, folder.train);
    test = pictures.take(Split::test, folder.test);
    pictures.check();
    bad = pictures.bad();
    image = pictures.shape();
  }
  writer.finish(folder.classes);
  if (bad > 0) fmt::print("{} pictures that cannot be used are left out\n", bad);
  tell(options, train, test, image, folder.classes.size());
}

/// What only pictures have.
void refuse_options_of_pictures(const ImportOptions& options) {
  for (const auto& [given, option] : {std::pair{options.size.has_value(), "--size"},
                                      {options.grey, "--gray"},
                                      {options.test_fraction.has_value(), "--test-fraction"},
                                      {options.skip_bad, "--skip-bad"}}) {
    if (given) {
      throw InputError(
          "", option,
          fmt::format("is for pictures; {} is a data set, taken as it is", options.source));
    }
  }
}

void import_data_set(const ImportOptions& options) {
  refuse_options_of_pictures(options);
  const auto train = data::open_images(options.source, Split::train, k_memory_bytes);
  const auto test = data::open_images(options.source, Split::test, k_memory_bytes);
  data::Hdf5ImageWriter writer(options.file);
  {
    ImportProgress progress;
    for (const auto& [split, source] :
         {std::pair{Split::train, train.get()}, {Split::test, test.get()}}) {
      writer.begin(split, source->facts().image, source->facts().pixels);
      for (std::int64_t i = 0; i < source->size(); ++i) {
        writer.add(source->pixels_of(i), source->facts().labels[static_cast<std::size_t>(i)]);
        progress.show(split, i + 1, source->size());
      }
    }
  }
  writer.finish(train->facts().class_names);
  tell(options, train->size(), test->size(), train->facts().image,
       static_cast<std::size_t>(train->facts().classes));
}

}  // namespace

void import_data(const ImportOptions& options) {
  std::error_code ignored;
  if (std::filesystem::exists(options.file, ignored) && !options.overwrite) {
    throw InputError(options.file, "", "is there already; --overwrite replaces it");
  }
  if (!std::filesystem::exists(options.source, ignored)) {
    throw InputError(options.source, "", "does not exist");
  }
  if (data::holds_pictures(options.source)) {
    import_pictures(options);
  } else {
    import_data_set(options);
  }
}

}  // namespace dynpipe::app
