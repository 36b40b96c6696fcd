#include "commands.hpp"

#include <array>

namespace dynpipe::cli {

std::span<const Command> commands() {
  static constexpr std::array k_commands{
      Command{"train", "train a network as a pipeline over the MPI ranks", train},
      Command{"profile", "measure what each layer and each link takes here", profile},
      Command{"doctor", "say what is wrong with ranks, cores, memory and links before training",
              doctor},
      Command{"simulate", "tell how fast a plan would train on a described cluster", simulate},
      Command{"data", "make data sets of pictures, tell what they hold", data},
  };
  return k_commands;
}

}  // namespace dynpipe::cli
