#pragma once

#include <mpi.h>

#include <string_view>

namespace dynpipe::comm {

/// Throws RunError naming the call and MPI's own words unless `code` is MPI_SUCCESS.
void check_mpi(int code, std::string_view call);

}  // namespace dynpipe::comm
