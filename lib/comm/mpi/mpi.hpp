#pragma once

#include <memory>
#include <string>

#include "comm/channel.hpp"
#include "comm/world.hpp"

namespace dynpipe::comm {

/// MPI from here until the object's end, and all its ranks.
std::unique_ptr<World> make_mpi_world(int* argc, char*** argv);

/// Messages as MPI point-to-point on host memory, on a communicator of their own (a duplicate of
/// the world's: the call is collective). `world` is one of MPI's; streams are immediate.
std::unique_ptr<Channel> make_mpi_channel(World& world, const base::Clock& clock,
                                          WaitPolicy policy);

/// What the MPI library says of itself.
struct MpiFacts {
  std::string library;       ///< "Open MPI v4.1.4"
  std::string standard;      ///< "3.1"
  std::string thread_level;  ///< "funneled": calls from the main thread
};
/// Between the beginning and the end of MPI.
MpiFacts mpi_facts();

}  // namespace dynpipe::comm
