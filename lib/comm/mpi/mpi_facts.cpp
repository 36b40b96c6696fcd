#include <fmt/format.h>
#include <mpi.h>

#include <array>

#include "comm/mpi/mpi.hpp"
#include "comm/mpi/mpi_check.hpp"

namespace dynpipe::comm {
namespace {

std::string thread_level() {
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  if (level == MPI_THREAD_MULTIPLE) return "multiple";
  if (level == MPI_THREAD_SERIALIZED) return "serialized";
  return level == MPI_THREAD_FUNNELED ? "funneled" : "single";
}

}  // namespace

MpiFacts mpi_facts() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  check_mpi(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  int version = 0;
  int subversion = 0;
  check_mpi(MPI_Get_version(&version, &subversion), "MPI_Get_version");
  const std::string library(text.data(), static_cast<std::size_t>(length));
  return {library.substr(0, library.find_first_of(",\n")),
          fmt::format("{}.{}", version, subversion), thread_level()};
}

}  // namespace dynpipe::comm
