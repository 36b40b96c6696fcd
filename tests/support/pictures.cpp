#include "support/pictures.hpp"

#include <png.h>
#include <turbojpeg.h>

#include <cmath>
#include <memory>
#include <span>
#include <stdexcept>
#include <type_traits>

#include "support/files.hpp"

namespace dynpipe::testing {

data::Picture waves(std::int64_t height, std::int64_t width, int channels, int phase) {
  data::Picture picture{height, width, channels, {}};
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const double at = 0.2 * static_cast<double>(x + phase) + 0.1 * static_cast<double>(y) + c;
        picture.pixels.push_back(static_cast<std::uint8_t>(128 + 100 * std::sin(at)));
      }
    }
  }
  return picture;
}

void write_png(const std::filesystem::path& path, const data::Picture& picture) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = picture.channels == 1   ? PNG_FORMAT_GRAY
                 : picture.channels == 4 ? PNG_FORMAT_RGBA
                                         : PNG_FORMAT_RGB;
  if (png_image_write_to_file(&image, path.c_str(), 0, picture.pixels.data(), 0, nullptr) == 0) {
    throw std::runtime_error(image.message);
  }
}

void write_jpeg(const std::filesystem::path& path, const data::Picture& picture) {
  const std::unique_ptr<std::remove_pointer_t<tjhandle>, int (*)(tjhandle)> encoder(
      tjInitCompress(), tjDestroy);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  const bool grey = picture.channels == 1;
  if (tjCompress2(encoder.get(), picture.pixels.data(), static_cast<int>(picture.width), 0,
                  static_cast<int>(picture.height), grey ? TJPF_GRAY : TJPF_RGB, &bytes, &size,
                  grey ? TJSAMP_GRAY : TJSAMP_444, 95, TJFLAG_ACCURATEDCT) != 0) {
    throw std::runtime_error(tjGetErrorStr2(encoder.get()));
  }
  const std::unique_ptr<unsigned char, void (*)(unsigned char*)> owner(bytes, tjFree);
  write_bytes(path, {bytes, size});
}

void truncate(const std::filesystem::path& path, double share) {
  const auto size = static_cast<double>(std::filesystem::file_size(path));
  std::filesystem::resize_file(path, static_cast<std::uintmax_t>(size * share));
}

}  // namespace dynpipe::testing
