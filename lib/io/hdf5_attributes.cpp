#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/errors.hpp"
#include "io/hdf5_library.hpp"

namespace dynpipe::io {

namespace {

/// An attribute that is there.
struct OpenAttribute {
  Handle attribute, type, space;
};

std::optional<OpenAttribute> open_attribute(hid_t file, const std::string& object,
                                            const std::string& name) {
  if (H5Aexists_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT) <= 0) return std::nullopt;
  Handle attribute(H5Aopen_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
                   H5Aclose);
  Handle type(H5Aget_type(attribute.id()), H5Tclose);
  Handle space(H5Aget_space(attribute.id()), H5Sclose);
  return OpenAttribute{std::move(attribute), std::move(type), std::move(space)};
}

std::string attribute_of(const std::string& object, const std::string& name) {
  return fmt::format("{}: attribute '{}'", object, name);
}

/// Makes an attribute, in place of one of that name.
void write_attribute(hid_t file, const std::string& where, const std::string& object,
                     const std::string& name, hid_t type, hid_t space, const void* values) {
  if (H5Aexists_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT) > 0) {
    H5Adelete_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT);
  }
  const Handle attribute(H5Acreate_by_name(file, object.c_str(), name.c_str(), type, space,
                                           H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose);
  if (attribute.id() < 0 || H5Awrite(attribute.id(), type, values) < 0) {
    fail_to_write(file, fmt::format("{}: {}", where, attribute_of(object, name)));
  }
}

}  // namespace

std::optional<std::vector<double>> File::attribute(const std::string& object,
                                                   const std::string& name) const {
  const Library library;
  const auto found = open_attribute(handle_.id(), object, name);
  if (!found) return std::nullopt;
  const Element element = element_of_type(found->type.id());
  if (element >= Element::text) {
    throw base::InputError(name_, attribute_of(object, name),
                           fmt::format("is {} where numbers are wanted", name_of(element)));
  }
  const hssize_t count = H5Sget_simple_extent_npoints(found->space.id());
  std::vector<double> values(static_cast<std::size_t>(std::max<hssize_t>(count, 0)));
  if (!values.empty() && H5Aread(found->attribute.id(), H5T_NATIVE_DOUBLE, values.data()) < 0) {
    throw base::InputError(name_, attribute_of(object, name),
                           fmt::format("cannot be read: {}", reason()));
  }
  return values;
}

std::optional<std::vector<std::string>> File::text_attribute(const std::string& object,
                                                             const std::string& name) const {
  const Library library;
  const auto found = open_attribute(handle_.id(), object, name);
  if (!found) return std::nullopt;
  const Element element = element_of_type(found->type.id());
  if (element != Element::text) {
    throw base::InputError(name_, attribute_of(object, name),
                           fmt::format("is {} where strings are wanted", name_of(element)));
  }
  auto texts = read_strings(found->type.id(), found->space.id(), [&](hid_t memory, void* into) {
    return H5Aread(found->attribute.id(), memory, into);
  });
  if (!texts) {
    throw base::InputError(name_, attribute_of(object, name),
                           fmt::format("cannot be read: {}", reason()));
  }
  return texts;
}

void File::set_attribute(const std::string& object, const std::string& name,
                         std::span<const double> values) {
  const Library library;
  const Handle space = space_of({values.size()});
  write_attribute(handle_.id(), name_, object, name, H5T_NATIVE_DOUBLE, space.id(), values.data());
}

void File::set_attribute(const std::string& object, const std::string& name, std::int64_t value) {
  const Library library;
  const Handle space = space_of({});
  write_attribute(handle_.id(), name_, object, name, H5T_NATIVE_INT64, space.id(), &value);
}

void File::set_attribute(const std::string& object, const std::string& name, double value) {
  const Library library;
  const Handle space = space_of({});
  write_attribute(handle_.id(), name_, object, name, H5T_NATIVE_DOUBLE, space.id(), &value);
}

void File::set_attribute(const std::string& object, const std::string& name,
                         const std::string& text) {
  const Library library;
  const Handle space = space_of({});
  const Handle type = variable_text_type();
  const char* const letters = text.c_str();
  write_attribute(handle_.id(), name_, object, name, type.id(), space.id(), &letters);
}

}  // namespace dynpipe::io
