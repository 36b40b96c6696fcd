#include "probe/launcher.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string_view>

namespace dynpipe::probe {
namespace {

struct Launcher {
  const char* size_variable;  ///< how many processes it has started
  std::string_view name;
};

/// Innermost first: mpirun in a step of Slurm sets the first ones and leaves the last.
constexpr std::array k_launchers{
    Launcher{"OMPI_COMM_WORLD_SIZE", "Open MPI's mpirun"},
    Launcher{"PMI_SIZE", "mpiexec (PMI)"},
    Launcher{"SLURM_STEP_NUM_TASKS", "srun"},
};

int number_in(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string launcher_mismatch(int world_size, const Environment& environment) {
  if (world_size > 1) return "";
  for (const Launcher& launcher : k_launchers) {
    const char* text = environment(launcher.size_variable);
    if (text == nullptr) continue;
    const int started = number_in(text);
    if (started <= 1) return "";
    return fmt::format(
        "{} has started {} processes, but MPI sees one: start it by the launcher of the MPI that "
        "dynpipe was built with (srun: --mpi=pmix for Open MPI, pmi2 for MPICH)",
        launcher.name, started);
  }
  return "";
}

}  // namespace dynpipe::probe
