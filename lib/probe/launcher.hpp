#pragma once

#include <functional>
#include <string>

namespace dynpipe::probe {

/// The value of an environment variable, or null.
using Environment = std::function<const char*(const char*)>;

/// What is wrong where a launcher has started several processes and MPI sees one (`world_size`):
/// each would train all by itself and write the same files. Empty: nothing. This is how it looks
/// when the launcher belongs to another MPI than the one that the program is linked with.
std::string launcher_mismatch(int world_size, const Environment& environment);

}  // namespace dynpipe::probe
