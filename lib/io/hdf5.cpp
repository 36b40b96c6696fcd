#include "io/hdf5.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/errors.hpp"
#include "io/hdf5_library.hpp"

namespace dynpipe::io {
namespace {

using base::InputError;
using base::RunError;

constexpr std::uintmax_t k_next_to_nothing = 1U << 16U;  // bytes left on a full disk

Handle creation_properties(const DatasetLayout& layout) {
  Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  if (!layout.chunk.empty()) {
    const std::vector<hsize_t> chunk(layout.chunk.begin(), layout.chunk.end());
    H5Pset_chunk(properties.id(), static_cast<int>(chunk.size()), chunk.data());
  }
  if (layout.deflate > 0) {
    H5Pset_shuffle(properties.id());
    H5Pset_deflate(properties.id(), static_cast<unsigned>(layout.deflate));
  }
  return properties;
}

/// Without a lock.
Handle shared_access() {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_file_locking(access.id(), false, true);
  return access;
}

}  // namespace

Extent extent_of(const base::Shape& shape) {
  Extent extent;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    extent.push_back(static_cast<std::uint64_t>(shape[axis]));
  }
  return extent;
}

File File::open(const std::filesystem::path& path) {
  const std::string name = path.string();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) throw InputError(name, "file", "does not exist");
  if (!std::filesystem::is_regular_file(path, ignored)) {
    throw InputError(name, "file", "is not a regular file");
  }
  const Library library;
  const htri_t is_hdf5 = H5Fis_hdf5(name.c_str());
  if (is_hdf5 == 0) throw InputError(name, "file", "is not an HDF5 file");
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  // Some parallel file systems have no locks: they are not worth failing for where one only reads.
  H5Pset_file_locking(access.id(), true, true);
  Handle handle(H5Fopen(name.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose);
  if (handle.id() < 0) {
    throw InputError(name, "file", fmt::format("cannot be opened: {}", reason()));
  }
  return {std::move(handle), name};
}

bool File::is_hdf5(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  const Library library;
  return H5Fis_hdf5(path.c_str()) > 0;
}

File File::create(const std::filesystem::path& path) {
  const Library library;
  const std::string name = path.string();
  Handle handle(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), H5Fclose);
  if (handle.id() < 0) throw RunError(fmt::format("{}: cannot be created: {}", name, reason()));
  return {std::move(handle), name};
}

File File::create_shared(const std::filesystem::path& path) {
  const Library library;
  const std::string name = path.string();
  const Handle access = shared_access();
  Handle handle(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id()), H5Fclose);
  if (handle.id() < 0) throw RunError(fmt::format("{}: cannot be created: {}", name, reason()));
  return {std::move(handle), name};
}

File File::open_shared(const std::filesystem::path& path) {
  open(path);  // says what is wrong with it
  const Library library;
  const std::string name = path.string();
  const Handle access = shared_access();
  Handle handle(H5Fopen(name.c_str(), H5F_ACC_RDWR, access.id()), H5Fclose);
  if (handle.id() < 0) {
    throw InputError(name, "file", fmt::format("cannot be written to: {}", reason()));
  }
  return {std::move(handle), name};
}

bool File::has(const std::string& path) const {
  const Library library;
  // Every group on the way must be looked for by itself.
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (part == "/") return true;
    if (H5Lexists(handle_.id(), part.c_str(), H5P_DEFAULT) <= 0) return false;
    if (end == std::string::npos) break;
  }
  return H5Oexists_by_name(handle_.id(), path.c_str(), H5P_DEFAULT) > 0;
}

std::vector<std::string> File::children(const std::string& group) const {
  const Library library;
  std::vector<std::string> names;
  if (!has(group)) return names;
  const auto take = [](hid_t, const char* name, const H5L_info_t*, void* into) -> herr_t {
    static_cast<std::vector<std::string>*>(into)->emplace_back(name);
    return 0;
  };
  const Handle handle(H5Oopen(handle_.id(), group.c_str(), H5P_DEFAULT), H5Oclose);
  H5Literate(handle.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, take, &names);
  return names;
}

Dataset File::dataset(const std::string& path) const {
  const Library library;
  if (!has(path)) throw InputError(name_, path, "is missing");
  Handle handle(H5Dopen2(handle_.id(), path.c_str(), H5P_DEFAULT), H5Dclose);
  if (handle.id() < 0) {
    throw InputError(name_, path, fmt::format("is not a dataset that can be opened: {}", reason()));
  }
  return {std::move(handle), name_, path};
}

std::string File::text(const std::string& path) const {
  const std::vector<std::string> texts = dataset(path).read_texts();
  if (texts.size() != 1) throw InputError(name_, path, "is not one text");
  return texts.front();
}

Dataset File::create_dataset(const std::string& path, const DatasetLayout& layout) {
  const Library library;
  const Handle space = space_of(layout.shape, layout.growing);
  const Handle groups = making_groups();
  const Handle properties = creation_properties(layout);
  Handle handle(H5Dcreate2(handle_.id(), path.c_str(), native_type(layout.element), space.id(),
                           groups.id(), properties.id(), H5P_DEFAULT),
                H5Dclose);
  if (handle.id() < 0) fail_to_write(handle_.id(), fmt::format("{}: {}", name_, path));
  return {std::move(handle), name_, path};
}

void File::write_texts(const std::string& path, std::span<const std::string> texts) {
  write_strings(path, {texts.size()}, texts);
}

void File::write_text(const std::string& path, const std::string& text) {
  write_strings(path, {}, std::span(&text, 1));
}

void File::write_strings(const std::string& path, const Extent& shape,
                         std::span<const std::string> texts) {
  const Library library;
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  const Handle space = space_of(shape);
  const Handle type = variable_text_type();
  const Handle groups = making_groups();
  const Handle dataset(H5Dcreate2(handle_.id(), path.c_str(), type.id(), space.id(), groups.id(),
                                  H5P_DEFAULT, H5P_DEFAULT),
                       H5Dclose);
  if (dataset.id() < 0 ||
      H5Dwrite(dataset.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()) < 0) {
    fail_to_write(handle_.id(), fmt::format("{}: {}", name_, path));
  }
}

void File::remove(const std::string& path) {
  const Library library;
  if (has(path) && H5Ldelete(handle_.id(), path.c_str(), H5P_DEFAULT) < 0) {
    fail_to_write(handle_.id(), fmt::format("{}: {}", name_, path));
  }
}

void File::link_to(const std::string& path, const std::string& file, const std::string& object) {
  const Library library;
  const Handle groups = making_groups();
  if (H5Lcreate_external(file.c_str(), object.c_str(), handle_.id(), path.c_str(), groups.id(),
                         H5P_DEFAULT) < 0) {
    fail_to_write(handle_.id(), fmt::format("{}: {}", name_, path));
  }
}

void File::flush() {
  const Library library;
  if (H5Fflush(handle_.id(), H5F_SCOPE_GLOBAL) < 0) fail_to_write(handle_.id(), name_);
}

File::~File() {
  try {
    close();
  } catch (const RunError&) {  // it is lost
  }
}

void File::close() {
  const Library library;
  if (handle_.id() < 0) return;
  try {
    flush();
  } catch (const RunError&) {
    handle_.close();
    throw;
  }
  const bool whole = !is_diverted(handle_.id(), name_);
  if (!handle_.close()) {
    throw RunError(fmt::format("{}: cannot be closed: {}", name_, reason()));
  }
  if (whole) return;
  std::error_code unknown;
  const auto space = std::filesystem::space(std::filesystem::path(name_).parent_path(), unknown);
  const bool full = !unknown && space.available < k_next_to_nothing;
  throw RunError(
      fmt::format("{}: could not be written{}", name_, full ? ": No space left on device" : ""));
}

}  // namespace dynpipe::io
