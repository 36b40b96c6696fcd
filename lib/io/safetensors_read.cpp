#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <system_error>
#include <tuple>

#include "base/errors.hpp"
#include "io/safetensors.hpp"
#include "model/object_reader.hpp"

namespace dynpipe::io {
namespace {

using base::InputError;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "elements are read as they lie");

/// The format's own bound; a header is read whole.
constexpr std::uint64_t k_most_header_bytes = 100'000'000;

struct KnownType {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array k_types{
    KnownType{"F64", 8}, KnownType{"F32", 4},     KnownType{"F16", 2},     KnownType{"BF16", 2},
    KnownType{"I64", 8}, KnownType{"I32", 4},     KnownType{"I16", 2},     KnownType{"I8", 1},
    KnownType{"U64", 8}, KnownType{"U32", 4},     KnownType{"U16", 2},     KnownType{"U8", 1},
    KnownType{"C64", 8}, KnownType{"F8_E4M3", 1}, KnownType{"F8_E5M2", 1}, KnownType{"BOOL", 1}};

/// IEEE 754 binary16: sign, 5 bits of exponent, 10 of fraction.
double half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int fraction = bits & 0x3ff;
  double size = 0;
  if (exponent == 0x1f) {
    size = fraction == 0 ? std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    size = std::ldexp(fraction, -24);
  } else {
    size = std::ldexp(fraction + 0x400, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -size : size;
}

/// bfloat16: the upper half of a binary32.
double brain_half(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

template <typename T, typename Convert>
void convert_all(std::span<const char> bytes, Convert convert, std::vector<double>& to) {
  for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    T value{};
    std::memcpy(&value, bytes.data() + at, sizeof(T));
    to.push_back(convert(value));
  }
}

using ConvertAll = void (*)(std::span<const char> bytes, std::vector<double>& to);

/// Null for a type that holds no numbers that weights could be.
ConvertAll conversion_of(std::string_view dtype) {
  if (dtype == "F64") return [](auto b, auto& to) { convert_all<double>(b, std::identity(), to); };
  if (dtype == "F32") return [](auto b, auto& to) { convert_all<float>(b, std::identity(), to); };
  if (dtype == "F16") return [](auto b, auto& to) { convert_all<std::uint16_t>(b, half, to); };
  if (dtype == "BF16") {
    return [](auto b, auto& to) { convert_all<std::uint16_t>(b, brain_half, to); };
  }
  return nullptr;
}

std::optional<std::uint64_t> bytes_of(const Extent& shape, std::uint64_t element_bytes) {
  std::uint64_t bytes = element_bytes;
  for (std::uint64_t length : shape) {
    if (length > 0 && bytes > std::numeric_limits<std::uint64_t>::max() / length) return {};
    bytes *= length;
  }
  return bytes;
}

SafetensorsEntry entry_in(const json& value, const std::string& name, const std::string& file) {
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < ' '; })) {
    throw InputError(file, model::shown(name), "is no name of a tensor");
  }
  model::ObjectReader reader(value, file, name);
  SafetensorsEntry entry{name, reader.required_string("dtype"), {}, 0, 0};
  const auto* const type = std::find_if(k_types.begin(), k_types.end(),
                                        [&](const auto& t) { return t.name == entry.dtype; });
  if (type == k_types.end()) reader.refuse("dtype", "is not known: " + model::shown(entry.dtype));
  for (std::int64_t length : reader.required_counts("shape", 0)) {
    entry.shape.push_back(static_cast<std::uint64_t>(length));
  }
  const std::vector<std::int64_t> place = reader.required_counts("data_offsets", 0);
  reader.done();
  if (place.size() != 2 || place[0] > place[1]) {
    reader.refuse("data_offsets", "must be two, the first and the one past the last byte");
  }
  entry.begin = static_cast<std::uint64_t>(place[0]);
  entry.end = static_cast<std::uint64_t>(place[1]);
  if (const auto bytes = bytes_of(entry.shape, type->bytes); bytes != entry.end - entry.begin) {
    reader.refuse("data_offsets", fmt::format("have room for {} bytes, dtype and shape need {}",
                                              entry.end - entry.begin,
                                              bytes ? fmt::format("{}", *bytes) : "far more"));
  }
  return entry;
}

SafetensorsMetadata metadata_in(const json& value, const std::string& file) {
  model::ObjectReader reader(value, file, "__metadata__");
  SafetensorsMetadata metadata;
  for (const auto& [key, text] : value.items()) metadata[key] = reader.required_string(key);
  return metadata;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& file) : name_(file.string()) {
  const auto refuse = [this](const std::string& problem) { throw InputError(name_, "", problem); };
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(file, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    refuse("is not a regular file");
  }
  const std::uint64_t bytes = std::filesystem::file_size(file, error);
  if (error) refuse(fmt::format("cannot be read: {}", error.message()));
  stream_.reset(std::fopen(name_.c_str(), "rb"));
  const auto read = [&](void* into, std::size_t count) {
    if (stream_ && std::fread(into, 1, count, stream_.get()) == count) return;
    refuse(fmt::format("cannot be read: {}", std::generic_category().message(errno)));
  };
  std::uint64_t length = 0;
  if (bytes < sizeof length) refuse(fmt::format("is no safetensors file: it has {} bytes", bytes));
  read(&length, sizeof length);
  if (length > k_most_header_bytes || length > bytes - sizeof length) {
    refuse(
        fmt::format("is cut off or no safetensors file: a header of {} bytes in a file of {} bytes",
                    length, bytes));
  }
  std::string header(length, '\0');
  read(header.data(), header.size());
  if (!header.starts_with('{')) refuse("is no safetensors file: its header is no JSON object");
  data_begin_ = sizeof length + length;
  parse(header, bytes - data_begin_);
}

void SafetensorsFile::parse(const std::string& header, std::uint64_t data_bytes) {
  const json document = model::parse_document(header, name_);
  const model::ObjectReader reader(document, name_, "");
  for (const auto& [name, value] : document.items()) {
    if (name == "__metadata__") {
      metadata_ = metadata_in(value, name_);
    } else {
      tensors_.push_back(entry_in(value, name, name_));
    }
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_places(data_bytes);
}

void SafetensorsFile::check_places(std::uint64_t data_bytes) const {
  std::uint64_t next = 0;
  for (const SafetensorsEntry& entry : tensors_) {
    const auto refuse = [&](const std::string& problem) {
      throw InputError(fmt::format("{}: {}", name_, entry.name), "data_offsets", problem);
    };
    if (entry.end > data_bytes) {
      refuse(fmt::format("end at byte {} of {}: the file is cut off", entry.end, data_bytes));
    }
    if (entry.begin < next) refuse("overlap those of another tensor");
    if (entry.begin > next) refuse(fmt::format("leave {} bytes before them", entry.begin - next));
    next = entry.end;
  }
  if (next != data_bytes) {
    throw InputError(name_, "", fmt::format("has {} bytes that no tensor has", data_bytes - next));
  }
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view tensor) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const auto& entry) { return entry.name == tensor; });
  return found == tensors_.end() ? nullptr : &*found;
}

void SafetensorsFile::require_numbers(const SafetensorsEntry& tensor) const {
  if (conversion_of(tensor.dtype) != nullptr) return;
  throw InputError(name_, tensor.name,
                   fmt::format("is {}, not F64, F32, F16 or BF16", tensor.dtype));
}

std::vector<double> SafetensorsFile::read(const SafetensorsEntry& tensor) const {
  require_numbers(tensor);
  const ConvertAll convert = conversion_of(tensor.dtype);
  const auto start = static_cast<off_t>(data_begin_ + tensor.begin);
  bool is_read = fseeko(stream_.get(), start, SEEK_SET) == 0;
  std::vector<double> values;
  values.reserve(*bytes_of(tensor.shape, 1));
  std::vector<char> part(std::size_t{1} << 20U);
  for (std::uint64_t left = tensor.end - tensor.begin; left > 0 && is_read;) {
    const std::size_t count = std::min<std::uint64_t>(left, part.size());
    is_read = std::fread(part.data(), 1, count, stream_.get()) == count;
    convert(std::span(part).first(count), values);
    left -= count;
  }
  if (!is_read) {
    throw InputError(name_, tensor.name,
                     fmt::format("cannot be read: {}", std::generic_category().message(errno)));
  }
  return values;
}

}  // namespace dynpipe::io
