#include "data/picture.hpp"

#include <fmt/format.h>
#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/errors.hpp"

namespace dynpipe::data {
namespace {

using base::InputError;

constexpr std::int64_t k_most_pixels = std::int64_t{1} << 28U;

std::vector<unsigned char> bytes_of(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw InputError(file.string(), "", "cannot be opened");
  return {std::istreambuf_iterator<char>(stream), {}};
}

bool same_byte(unsigned char a, char b) {
  return a == static_cast<unsigned char>(b);
}

bool begins_with(std::span<const unsigned char> bytes, std::string_view signature) {
  return bytes.size() >= signature.size() &&
         std::equal(bytes.begin(), bytes.begin() + std::ssize(signature), signature.begin(),
                    same_byte);
}

Picture sized(const std::string& name, std::int64_t width, std::int64_t height, int channels) {
  if (width < 1 || height < 1 || width > k_most_pixels / height) {
    throw InputError(name, "", fmt::format("is of unlikely size, {} x {} pixels", width, height));
  }
  Picture picture{height, width, channels, {}};
  picture.pixels.resize(static_cast<std::size_t>(height * width * channels));
  return picture;
}

/// The four inks of a printer's JPEG, stored inverted, as light.
Picture light_of_inks(const Picture& inks) {
  Picture picture{inks.height, inks.width, 3, {}};
  picture.pixels.reserve(inks.pixels.size() / 4 * 3);
  for (std::size_t i = 0; i < inks.pixels.size(); i += 4) {
    for (std::size_t ink = 0; ink < 3; ++ink) {
      picture.pixels.push_back(
          static_cast<std::uint8_t>(inks.pixels[i + ink] * inks.pixels[i + 3] / 255));
    }
  }
  return picture;
}

/// Whether the decoder's last complaint leaves the picture whole.
bool is_harmless(tjhandle decoder) {
  return tjGetErrorCode(decoder) == TJERR_WARNING &&
         std::string_view(tjGetErrorStr2(decoder)).find("extraneous bytes") !=
             std::string_view::npos;
}

Picture decode_jpeg(const std::string& name, std::span<const unsigned char> bytes) {
  const std::unique_ptr<std::remove_pointer_t<tjhandle>, int (*)(tjhandle)> decoder(
      tjInitDecompress(), tjDestroy);
  if (!decoder) throw base::RunError("libjpeg-turbo cannot be started");
  int width = 0, height = 0, sampling = 0, colours = 0;
  const auto refuse = [&] { throw InputError(name, "JPEG", tjGetErrorStr2(decoder.get())); };
  if (tjDecompressHeader3(decoder.get(), bytes.data(), bytes.size(), &width, &height, &sampling,
                          &colours) != 0 &&
      !is_harmless(decoder.get())) {
    refuse();
  }
  const bool inks = colours == TJCS_CMYK || colours == TJCS_YCCK;
  Picture picture = sized(name, width, height, inks ? 4 : 3);
  if (tjDecompress2(decoder.get(), bytes.data(), bytes.size(), picture.pixels.data(), width, 0,
                    height, inks ? TJPF_CMYK : TJPF_RGB, TJFLAG_ACCURATEDCT) != 0 &&
      !is_harmless(decoder.get())) {
    refuse();
  }
  return inks ? light_of_inks(picture) : picture;
}

Picture decode_png(const std::string& name, std::span<const unsigned char> bytes) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const std::unique_ptr<png_image, void (*)(png_image*)> cleaner(&image, png_image_free);
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) {
    throw InputError(name, "PNG", image.message);
  }
  image.format = PNG_FORMAT_RGB;
  Picture picture = sized(name, image.width, image.height, 3);
  const png_color black{0, 0, 0};
  if (png_image_finish_read(&image, &black, picture.pixels.data(), 0, nullptr) == 0) {
    throw InputError(name, "PNG", image.message);
  }
  constexpr std::string_view k_end = "IEND\xae\x42\x60\x82";
  if (std::search(bytes.begin(), bytes.end(), k_end.begin(), k_end.end(), same_byte) ==
      bytes.end()) {
    throw InputError(name, "PNG", "breaks off before its end mark");
  }
  return picture;
}

}  // namespace

Picture read_picture(const std::filesystem::path& file) {
  const std::string name = file.string();
  const std::vector<unsigned char> bytes = bytes_of(file);
  if (bytes.empty()) throw InputError(name, "", "is empty");
  if (begins_with(bytes, "\xff\xd8")) return decode_jpeg(name, bytes);
  if (begins_with(bytes, "\x89PNG")) return decode_png(name, bytes);
  throw InputError(name, "", "is neither JPEG nor PNG");
}

Picture to_grey(const Picture& colour) {
  Picture grey{colour.height, colour.width, 1, {}};
  grey.pixels.reserve(colour.pixels.size() / 3);
  for (std::size_t i = 0; i < colour.pixels.size(); i += 3) {
    const int weighted =
        299 * colour.pixels[i] + 587 * colour.pixels[i + 1] + 114 * colour.pixels[i + 2] + 500;
    grey.pixels.push_back(static_cast<std::uint8_t>(weighted / 1000));
  }
  return grey;
}

}  // namespace dynpipe::data
