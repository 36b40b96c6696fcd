#include "data/hdf5_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/errors.hpp"
#include "data/hdf5_images.hpp"

namespace dynpipe::data {
namespace {

constexpr std::size_t k_chunk_bytes = std::size_t{1} << 20U;

/// Has the operating system put the file on its disk.
void sync(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool done = file >= 0 && fsync(file) == 0;
  const std::string problem = std::generic_category().message(errno);
  if (file >= 0) close(file);
  if (!done) throw base::RunError(fmt::format("{}: cannot be written: {}", path.string(), problem));
}

}  // namespace

Hdf5ImageWriter::Hdf5ImageWriter(const std::filesystem::path& file)
    : name_(file), temporary_(file.string() + ".part"), file_(io::File::create(temporary_)) {}

Hdf5ImageWriter::~Hdf5ImageWriter() {
  if (!file_) return;
  images_.reset();
  file_.reset();
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

void Hdf5ImageWriter::begin(Split split, const base::Shape& image, PixelType pixels) {
  end_split();
  split_ = split;
  pixels_ = pixels;
  image_bytes_ = static_cast<std::size_t>(image.elements()) * size_of(pixels);
  const std::size_t chunk = std::max<std::size_t>(1, k_chunk_bytes / image_bytes_);
  chunk_bytes_ = chunk * image_bytes_;
  io::Extent shape = {0}, chunk_shape = {chunk};
  for (int axis = 0; axis < image.rank(); ++axis) {
    shape.push_back(static_cast<std::uint64_t>(image[axis]));
    chunk_shape.push_back(static_cast<std::uint64_t>(image[axis]));
  }
  io::DatasetLayout layout;
  layout.element = pixels == PixelType::uint8 ? io::Element::uint8 : io::Element::float32;
  layout.shape = std::move(shape);
  layout.chunk = std::move(chunk_shape);
  layout.growing = true;
  images_.emplace(file_->create_dataset(Hdf5Names::of(split).images, layout));
  statistics_.emplace(image[0]);
}

void Hdf5ImageWriter::add(std::span<const std::byte> pixels, std::int32_t label) {
  rows_.insert(rows_.end(), pixels.begin(), pixels.end());
  labels_.push_back(label);
  if (pixels_ == PixelType::uint8) {
    statistics_->add(pixels_as<std::uint8_t>(pixels));
  } else {
    statistics_->add(pixels_as<float>(pixels));
  }
  if (rows_.size() >= chunk_bytes_) write_rows();
}

void Hdf5ImageWriter::write_rows() {
  const std::uint64_t count = rows_.size() / image_bytes_;
  images_->grow(rows_written_ + count);
  if (pixels_ == PixelType::uint8) {
    images_->write_rows(rows_written_, count, pixels_as<std::uint8_t>(rows_));
  } else {
    images_->write_rows(rows_written_, count, pixels_as<float>(rows_));
  }
  rows_written_ += count;
  rows_.clear();
}

void Hdf5ImageWriter::end_split() {
  if (!images_) return;
  write_rows();
  images_.reset();
  const Hdf5Names names = Hdf5Names::of(split_);
  file_->create_dataset(names.labels, {io::Element::int32, {labels_.size()}, {}, 0})
      .write_all<std::int32_t>(labels_);
  if (split_ == Split::train && !labels_.empty()) {
    const Normalisation found = statistics_->normalisation();
    file_->set_attribute(names.images, Hdf5Names::k_mean, found.mean);
    file_->set_attribute(names.images, Hdf5Names::k_deviation, found.deviation);
  }
  labels_.clear();
  rows_written_ = 0;
}

void Hdf5ImageWriter::finish(std::span<const std::string> class_names) {
  end_split();
  if (!class_names.empty()) file_->write_texts(Hdf5Names::k_classes, class_names);
  file_->close();
  sync(temporary_);
  std::error_code error;
  std::filesystem::rename(temporary_, name_, error);
  if (error) {
    throw base::RunError(fmt::format("{}: cannot be renamed to {}: {}", temporary_.string(),
                                     name_.string(), error.message()));
  }
  file_.reset();
}

}  // namespace dynpipe::data
