#include "comm/mpi/mpi_check.hpp"

#include <fmt/format.h>

#include <array>

#include "base/errors.hpp"

namespace dynpipe::comm {

void check_mpi(int code, std::string_view call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw base::RunError(
      fmt::format("{}: {}", call, std::string_view(text.data(), static_cast<std::size_t>(length))));
}

}  // namespace dynpipe::comm
