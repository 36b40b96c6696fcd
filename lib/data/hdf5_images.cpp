#include "data/hdf5_images.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/errors.hpp"
#include "io/hdf5.hpp"

namespace dynpipe::data {
namespace {

using base::InputError;

/// Reading less at once costs more for each image.
constexpr std::size_t k_least_block_bytes = std::size_t{1} << 20U;
constexpr std::int64_t k_most_classes = 1'000'000;
constexpr std::uint64_t k_most_images = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t k_most_side = 1U << 20U;

std::string dimensions(const io::Extent& extent) {
  std::string text = "[";
  for (std::uint64_t length : extent)
    text += fmt::format("{}{}", text.size() > 1 ? "," : "", length);
  return text + "]";
}

double mebibytes(std::size_t bytes) {
  return static_cast<double>(bytes) / (1U << 20U);
}

io::Dataset open_image_array(const io::File& file, const std::string& path) {
  io::Dataset images = file.dataset(path);
  const io::Element element = images.element();
  if (element != io::Element::uint8 && element != io::Element::float32) {
    throw InputError(file.name(), path,
                     fmt::format("is {}; images are uint8 or float32", io::name_of(element)));
  }
  const io::Extent& shape = images.shape();
  if (shape.size() != 4) {
    throw InputError(file.name(), path,
                     fmt::format("has shape {}; images are [N,C,H,W]", dimensions(shape)));
  }
  if (std::find(shape.begin(), shape.end(), 0U) != shape.end()) {
    throw InputError(file.name(), path, fmt::format("holds nothing: {}", dimensions(shape)));
  }
  const bool too_large =
      shape[0] > k_most_images || *std::max_element(shape.begin() + 1, shape.end()) > k_most_side;
  if (too_large) {
    throw InputError(file.name(), path, fmt::format("is too large: {}", dimensions(shape)));
  }
  return images;
}

std::vector<std::int32_t> read_labels(const io::File& file, const std::string& path,
                                      std::uint64_t images, const std::string& images_path) {
  const io::Dataset labels = file.dataset(path);
  if (!io::is_integer(labels.element())) {
    throw InputError(file.name(), path,
                     fmt::format("is {}; labels are integers", io::name_of(labels.element())));
  }
  if (labels.shape().size() != 1) {
    throw InputError(file.name(), path,
                     fmt::format("has shape {}; labels are [N]", dimensions(labels.shape())));
  }
  if (labels.shape()[0] != images) {
    throw InputError(file.name(), path,
                     fmt::format("has {} labels, but {} holds {} images", labels.shape()[0],
                                 images_path, images));
  }
  const std::vector<std::int64_t> wide = labels.read_all<std::int64_t>();
  std::vector<std::int32_t> narrow(wide.size());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    if (wide[i] < 0 || wide[i] >= k_most_classes) {
      throw InputError(
          file.name(), path,
          fmt::format("[{}] is {}; labels are 0 to {}", i, wide[i], k_most_classes - 1));
    }
    narrow[i] = static_cast<std::int32_t>(wide[i]);
  }
  return narrow;
}

std::vector<std::string> read_class_names(const io::File& file) {
  if (file.has(Hdf5Names::k_classes)) return file.dataset(Hdf5Names::k_classes).read_texts();
  return file.text_attribute("/", "classes").value_or(std::vector<std::string>{});
}

/// Mean and deviation, where the file states both.
std::optional<Normalisation> read_normalisation(const io::File& file, std::size_t channels) {
  const std::string path = Hdf5Names::of(Split::train).images;
  if (!file.has(path)) return std::nullopt;
  auto mean = file.attribute(path, Hdf5Names::k_mean);
  auto deviation = file.attribute(path, Hdf5Names::k_deviation);
  if (!mean && !deviation) return std::nullopt;
  const auto usable = [&](const std::optional<std::vector<double>>& values, double above) {
    return values && values->size() == channels &&
           std::all_of(values->begin(), values->end(),
                       [above](double x) { return std::isfinite(x) && x > above; });
  };
  if (!usable(mean, -std::numeric_limits<double>::infinity()) || !usable(deviation, 0)) {
    throw InputError(file.name(), path,
                     fmt::format("attributes '{}' and '{}' must be {} finite numbers each, "
                                 "deviations above 0",
                                 Hdf5Names::k_mean, Hdf5Names::k_deviation, channels));
  }
  return Normalisation{*std::move(mean), *std::move(deviation)};
}

ImageSource::Facts read_facts(const io::File& file, const io::Dataset& images, Split split) {
  const Hdf5Names names = Hdf5Names::of(split);
  const auto length = [&](std::size_t axis) {
    return static_cast<std::int64_t>(images.shape()[axis]);
  };
  ImageSource::Facts facts;
  facts.image = {length(1), length(2), length(3)};
  facts.pixels = images.element() == io::Element::uint8 ? PixelType::uint8 : PixelType::float32;
  facts.labels = read_labels(file, names.labels, images.shape()[0], names.images);
  facts.class_names = read_class_names(file);
  const std::int64_t used = *std::max_element(facts.labels.begin(), facts.labels.end()) + 1;
  facts.classes = facts.class_names.empty() ? used : std::ssize(facts.class_names);
  if (used > facts.classes) {
    throw InputError(
        file.name(), names.labels,
        fmt::format("has a label {}, but {} classes are named", used - 1, facts.classes));
  }
  facts.normalisation = read_normalisation(file, images.shape()[1]);
  facts.images_place = fmt::format("{}: {}", file.name(), names.images);
  facts.labels_place = fmt::format("{}: {}", file.name(), names.labels);
  facts.format = "HDF5";
  return facts;
}

class Hdf5Source final : public ImageSource {
 public:
  Hdf5Source(Facts facts, io::Dataset images, std::size_t memory_bytes)
      : ImageSource(std::move(facts)), images_(std::move(images)) {
    const std::uint64_t all = images_.shape()[0];
    const std::uint64_t chunk = images_.chunk().empty() ? 1 : images_.chunk()[0];
    const std::size_t least =
        memory_bytes > 0 ? std::min(k_least_block_bytes, memory_bytes / 4) : k_least_block_bytes;
    const std::uint64_t chunk_bytes = chunk * image_bytes();
    const std::uint64_t chunks =
        std::max<std::uint64_t>(1, (least + chunk_bytes - 1) / chunk_bytes);
    block_images_ = std::min(chunk * chunks, all);
    const std::size_t block_bytes = block_images_ * image_bytes();
    most_blocks_ = std::max<std::size_t>(2, memory_bytes / block_bytes);
    if (memory_bytes > 0 && 2 * block_bytes > memory_bytes && all * image_bytes() > memory_bytes) {
      throw InputError(images_.file(), images_.path(),
                       fmt::format("has chunks of {} images, {:.1f} MiB: too much for a shuffle "
                                   "window of {:.1f} MiB, which holds two",
                                   chunk, mebibytes(block_bytes), mebibytes(memory_bytes)));
    }
  }

  std::int64_t block_images() const override { return static_cast<std::int64_t>(block_images_); }
  std::int64_t most_blocks() const override { return static_cast<std::int64_t>(most_blocks_); }

  std::int64_t blocks_read() const override { return blocks_read_; }

  std::span<const std::byte> pixels_of(std::int64_t index) override {
    const auto image = static_cast<std::uint64_t>(index);
    const std::vector<std::byte>& block = block_of(image / block_images_);
    return std::span(block).subspan(image % block_images_ * image_bytes(), image_bytes());
  }

  void use_blocks(std::span<const std::uint64_t> now,
                  std::span<const std::uint64_t> soon) override {
    wanted_.clear();
    wanted_.insert(now.begin(), now.end());
    wanted_.insert(soon.begin(), soon.end());
    for (std::uint64_t block : soon) block_of(block);
  }

 private:
  const std::vector<std::byte>& block_of(std::uint64_t block) {
    const auto found = blocks_.find(block);
    if (found != blocks_.end()) return found->second;
    std::vector<std::byte> memory = free_memory();
    load(block, memory);
    ++blocks_read_;
    age_.push_back(block);
    return blocks_.emplace(block, std::move(memory)).first->second;
  }

  /// Memory for a block, that of another one if no more may be held.
  std::vector<std::byte> free_memory() {
    if (blocks_.size() < most_blocks_) return {};
    auto leaves = std::find_if(age_.begin(), age_.end(),
                               [this](std::uint64_t block) { return !wanted_.contains(block); });
    if (leaves == age_.end()) leaves = age_.begin();
    const auto entry = blocks_.find(*leaves);
    std::vector<std::byte> memory = std::move(entry->second);
    blocks_.erase(entry);
    age_.erase(leaves);
    return memory;
  }

  void load(std::uint64_t block, std::vector<std::byte>& memory) const {
    const std::uint64_t first = block * block_images_;
    const std::uint64_t count = std::min(block_images_, images_.shape()[0] - first);
    memory.resize(count * image_bytes());
    if (facts().pixels == PixelType::uint8) {
      images_.read_rows<std::uint8_t>(
          first, count, {reinterpret_cast<std::uint8_t*>(memory.data()), memory.size()});
      return;
    }
    const std::span<float> values(reinterpret_cast<float*>(memory.data()),
                                  memory.size() / sizeof(float));
    images_.read_rows<float>(first, count, values);
    const auto bad =
        std::find_if(values.begin(), values.end(), [](float x) { return !std::isfinite(x); });
    if (bad == values.end()) return;
    const auto length = static_cast<std::ptrdiff_t>(facts().image.elements());
    throw InputError(
        images_.file(), images_.path(),
        fmt::format("image {} has a value that is not finite",
                    first + static_cast<std::uint64_t>((bad - values.begin()) / length)));
  }

  io::Dataset images_;
  std::uint64_t block_images_ = 1;
  std::size_t most_blocks_ = 2;
  std::int64_t blocks_read_ = 0;
  std::unordered_map<std::uint64_t, std::vector<std::byte>> blocks_;
  std::deque<std::uint64_t> age_;             ///< of blocks_, oldest first
  std::unordered_set<std::uint64_t> wanted_;  ///< that should stay
};

}  // namespace

Hdf5Names Hdf5Names::of(Split split) {
  const std::string group = split == Split::train ? "/train" : "/test";
  return {group + "/images", group + "/labels"};
}

std::unique_ptr<ImageSource> open_hdf5_images(const std::filesystem::path& path, Split split,
                                              std::size_t memory_bytes) {
  const io::File file = io::File::open(path);
  io::Dataset images = open_image_array(file, Hdf5Names::of(split).images);
  ImageSource::Facts facts = read_facts(file, images, split);
  return std::make_unique<Hdf5Source>(std::move(facts), std::move(images), memory_bytes);
}

}  // namespace dynpipe::data
