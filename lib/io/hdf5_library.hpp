#pragma once

#include <hdf5.h>

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5.hpp"

/// How the files beside this one speak to the HDF5 library; nobody else needs it.
namespace dynpipe::io {

/// Held around calls into the library, which need not have been built for threads; its own printing
/// of errors is off for the thread meanwhile.
class Library {
 public:
  Library();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

/// The innermost reason of the library's last failure on this thread.
std::string reason();

/// From now on the file that `object` is or belongs to is written into memory that nobody reads: it
/// can be closed, where otherwise the library would keep what it cannot get rid of and crash over
/// it at the program's end.
void divert(hid_t object);
/// Throws RunError: `what`, of such a file, could not be written; diverts it.
[[noreturn]] void fail_to_write(hid_t object, const std::string& what);
/// Whether that has happened to an open file of this name.
bool is_diverted(hid_t file, const std::string& name);

/// A new data space of this shape, which may grow in rows.
Handle space_of(const Extent& extent, bool growing = false);
Extent extent_of(hid_t space);

Element element_of_type(hid_t type);
/// Its type in memory; throws std::invalid_argument for what is no number.
hid_t native_type(Element element);
Handle variable_text_type();

/// Reads the strings of `space` by `read(memory type, buffer)`, whose type in the file is `type`;
/// empty where that fails.
std::optional<std::vector<std::string>> read_strings(
    hid_t type, hid_t space, const std::function<herr_t(hid_t, void*)>& read);

/// A property list that has missing groups made on the way to a new object.
Handle making_groups();

}  // namespace dynpipe::io
