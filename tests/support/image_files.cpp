#include "support/image_files.hpp"

namespace dynpipe::testing {
namespace {

template <typename T>
std::vector<T> pixels_of(const Hdf5Images& images, std::uint64_t count) {
  std::vector<T> pixels(count);
  for (std::uint64_t i = 0; i < count; ++i) pixels[i] = static_cast<T>(images.pixel(i));
  return pixels;
}

}  // namespace

std::uint8_t Hdf5Images::pixel(std::uint64_t i) const {
  return static_cast<std::uint8_t>((i + seed) * 0x9e3779b97f4a7c15ULL >> 56U);
}

std::vector<std::int64_t> Hdf5Images::labels() const {
  std::vector<std::int64_t> labels;
  for (std::uint64_t i = 0; i < shape[0]; ++i) {
    labels.push_back(static_cast<std::int64_t>(i) * 7 % classes);
  }
  return labels;
}

void Hdf5Images::write(io::File& file, const std::string& group) const {
  io::Dataset images = file.create_dataset(group + "/images", {element, shape, chunk, 0});
  const std::uint64_t count = images.elements();
  if (element == io::Element::float32) {
    images.write_all<float>(pixels_of<float>(*this, count));
  } else {
    images.write_all<std::uint8_t>(pixels_of<std::uint8_t>(*this, count));
  }
  file.create_dataset(group + "/labels", {io::Element::int64, {shape[0]}, {}, 0})
      .write_all<std::int64_t>(labels());
}

void Hdf5Images::write(const std::filesystem::path& path) const {
  io::File file = io::File::create(path);
  write(file, "/train");
  write(file, "/test");
}

}  // namespace dynpipe::testing
