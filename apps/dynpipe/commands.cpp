#include "commands.hpp"

#include <array>

namespace dynpipe::cli {

std::span<const Command> commands() {
  static constexpr std::array k_commands{
      Command{"train", "train a network as a pipeline over the MPI ranks", train},
      Command{"eval", "loss, accuracy and confusions of trained weights", eval},
      Command{"profile", "measure what each layer and each link takes here", profile},
      Command{"doctor", "say what is wrong with ranks, cores, memory and links before training",
              doctor},
      Command{"plan", "find the best plan for a model on a number of ranks, and say why", plan},
      Command{"simulate", "tell how fast a plan would train on a described cluster", simulate},
      Command{"forest", "learn how disturbances slow a rank's layers, and predict it", forest},
      Command{"checkpoint", "list, show and verify checkpoints; exchange weights with PyTorch",
              checkpoint},
      Command{"trace", "tell where the time of a traced run went, and what else it could be",
              trace},
      Command{"data", "make data sets of pictures, tell what they hold", data},
  };
  return k_commands;
}

}  // namespace dynpipe::cli
