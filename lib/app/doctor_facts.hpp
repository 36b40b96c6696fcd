#pragma once

#include <string>
#include <vector>

#include "app/memory_forecast.hpp"
#include "comm/mpi/mpi.hpp"
#include "comm/world.hpp"
#include "io/hdf5.hpp"
#include "ops/libraries.hpp"
#include "probe/host_state.hpp"
#include "probe/link_timing.hpp"
#include "probe/placement.hpp"

namespace dynpipe::app {

/// What a rank finds out about itself and its host for `dynpipe doctor`.
struct DoctorFacts {
  probe::RankPlace place;
  RankRoom room;
  probe::HostState host;
  comm::MpiFacts mpi;
  ops::MathsLibraries maths;
  io::LibraryFacts hdf5;
  std::string cpu;              ///< model name
  int slurm_step_tasks = 0;     ///< of the job step that started this process; 0: none
  double other_cores = 0;       ///< that processes other than this run's use on the host
  double gigaflops = 0;         ///< of products of 512 x 512 matrices, all ranks at once
  probe::LinkTiming next_link;  ///< to the next rank
};

/// Facts as text and back, for the way to rank 0.
std::string pack(const DoctorFacts& facts);
DoctorFacts unpack_doctor_facts(const std::string& text);

/// Takes about a second, for timings. Collective.
DoctorFacts find_facts(comm::World& world);

}  // namespace dynpipe::app
