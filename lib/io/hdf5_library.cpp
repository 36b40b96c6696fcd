#include "io/hdf5_library.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "base/errors.hpp"

namespace dynpipe::io {
namespace {

static_assert(std::is_same_v<hid_t, std::int64_t>, "Handle keeps the library's identifiers");
static_assert(std::is_same_v<herr_t, int>);

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

}  // namespace

Library::Library() : lock_(library_mutex()) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

LibraryFacts library_facts() {
  const Library library;
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return {fmt::format("{}.{}.{}", major, minor, release), H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0};
}

std::string reason() {
  std::string text;
  const auto take_first = [](unsigned, const H5E_error2_t* error, void* into) -> herr_t {
    auto& found = *static_cast<std::string*>(into);
    if (found.empty() && error->desc != nullptr) found = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, &text);
  // Of what the system refused, its own words say most.
  constexpr std::string_view k_system = "error message = '";
  if (const std::size_t begin = text.find(k_system); begin != std::string::npos) {
    text.erase(0, begin + k_system.size());
    text.resize(std::min(text.find('\''), text.size()));
  }
  return text.empty() ? "HDF5 gives no reason" : text;
}

namespace {

/// The descriptor of an open file; -1 where the library has none.
int descriptor_of(hid_t file) {
  int* descriptor = nullptr;
  const bool known =
      H5Fget_vfd_handle(file, H5P_DEFAULT, reinterpret_cast<void**>(&descriptor)) >= 0;
  return known && descriptor != nullptr ? *descriptor : -1;
}

}  // namespace

void divert(hid_t object) {
  const Handle file(H5Iget_file_id(object), H5Fclose);
  const int descriptor = descriptor_of(file.id());
  const int memory = memfd_create("unwritten", MFD_CLOEXEC);
  if (descriptor >= 0 && memory >= 0) dup2(memory, descriptor);
  if (memory >= 0) ::close(memory);
}

void fail_to_write(hid_t object, const std::string& what) {
  const std::string why = reason();
  divert(object);
  throw base::RunError(fmt::format("{}: cannot be written: {}", what, why));
}

bool is_diverted(hid_t file, const std::string& name) {
  struct stat open {};
  struct stat named {};
  const int descriptor = descriptor_of(file);
  if (descriptor < 0 || fstat(descriptor, &open) != 0 || stat(name.c_str(), &named) != 0) {
    return false;
  }
  return open.st_ino != named.st_ino || open.st_dev != named.st_dev;
}

Handle space_of(const Extent& extent, bool growing) {
  if (extent.empty()) return {H5Screate(H5S_SCALAR), H5Sclose};
  const std::vector<hsize_t> lengths(extent.begin(), extent.end());
  std::vector<hsize_t> most = lengths;
  if (growing) most[0] = H5S_UNLIMITED;
  return {H5Screate_simple(static_cast<int>(lengths.size()), lengths.data(), most.data()),
          H5Sclose};
}

Extent extent_of(hid_t space) {
  const int rank = H5Sget_simple_extent_ndims(space);
  std::vector<hsize_t> lengths(static_cast<std::size_t>(std::max(rank, 0)));
  if (rank > 0) H5Sget_simple_extent_dims(space, lengths.data(), nullptr);
  return {lengths.begin(), lengths.end()};
}

Element element_of_type(hid_t type) {
  const std::size_t bytes = H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER: {
      const int unsigned_part = H5Tget_sign(type) == H5T_SGN_NONE ? 1 : 0;
      constexpr std::array<std::size_t, 4> k_sizes = {1, 2, 4, 8};
      const auto* const size = std::find(k_sizes.begin(), k_sizes.end(), bytes);
      if (size == k_sizes.end()) return Element::other;
      return static_cast<Element>(2 * (size - k_sizes.begin()) + unsigned_part);
    }
    case H5T_FLOAT:
      return bytes == 4 ? Element::float32 : bytes == 8 ? Element::float64 : Element::other;
    case H5T_STRING:
      return Element::text;
    default:
      return Element::other;
  }
}

hid_t native_type(Element element) {
  switch (element) {
    case Element::int8:
      return H5T_NATIVE_INT8;
    case Element::uint8:
      return H5T_NATIVE_UINT8;
    case Element::int16:
      return H5T_NATIVE_INT16;
    case Element::uint16:
      return H5T_NATIVE_UINT16;
    case Element::int32:
      return H5T_NATIVE_INT32;
    case Element::uint32:
      return H5T_NATIVE_UINT32;
    case Element::int64:
      return H5T_NATIVE_INT64;
    case Element::uint64:
      return H5T_NATIVE_UINT64;
    case Element::float32:
      return H5T_NATIVE_FLOAT;
    case Element::float64:
      return H5T_NATIVE_DOUBLE;
    case Element::text:
    case Element::other:
      break;
  }
  throw std::invalid_argument("only numbers have a type in memory");
}

Handle variable_text_type() {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.id(), H5T_VARIABLE);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  return type;
}

std::optional<std::vector<std::string>> read_strings(
    hid_t type, hid_t space, const std::function<herr_t(hid_t, void*)>& read) {
  const hssize_t found = H5Sget_simple_extent_npoints(space);
  if (found < 0) return std::nullopt;
  const auto count = static_cast<std::size_t>(found);
  std::vector<std::string> texts;
  const Handle memory(H5Tcopy(type), H5Tclose);  // keeps the character set, which is not converted
  if (H5Tis_variable_str(type) > 0) {
    std::vector<char*> pointers(count, nullptr);
    if (read(memory.id(), pointers.data()) < 0) return std::nullopt;
    for (const char* text : pointers) texts.emplace_back(text == nullptr ? "" : text);
    H5Dvlen_reclaim(memory.id(), space, H5P_DEFAULT, pointers.data());
    return texts;
  }
  const std::size_t length = H5Tget_size(type);
  std::vector<char> letters(count * length);
  if (read(memory.id(), letters.data()) < 0) return std::nullopt;
  const char pad = H5Tget_strpad(type) == H5T_STR_SPACEPAD ? ' ' : '\0';
  for (std::size_t i = 0; i < count; ++i) {
    std::string text(letters.data() + i * length, length);
    text.resize(std::min(text.find('\0'), text.size()));
    while (pad == ' ' && text.ends_with(' ')) text.pop_back();
    texts.push_back(std::move(text));
  }
  return texts;
}

Handle making_groups() {
  Handle properties(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(properties.id(), 1);
  return properties;
}

std::string_view name_of(Element element) {
  constexpr std::array<std::string_view, 12> k_names = {
      "int8",  "uint8",  "int16",   "uint16",  "int32", "uint32",
      "int64", "uint64", "float32", "float64", "text",  "of another type"};
  return k_names[static_cast<std::size_t>(element)];
}

Handle::Handle(Handle&& other) noexcept
    : id_(std::exchange(other.id_, -1)), close_(std::exchange(other.close_, nullptr)) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    close();
    id_ = std::exchange(other.id_, -1);
    close_ = std::exchange(other.close_, nullptr);
  }
  return *this;
}

Handle::~Handle() {
  close();
}

bool Handle::close() {
  if (id_ < 0) return true;
  const Library library;
  return close_(std::exchange(id_, -1)) >= 0;
}

}  // namespace dynpipe::io
