#include "app/profile_command.hpp"
#include "commands.hpp"

namespace dynpipe::cli {

int profile(int argc, char** argv) {
  return run_on_ranks(argc, argv, [&](comm::World& world, const OnFailure&) {
    app::profile(words_of(argc, argv), world);
  });
}

}  // namespace dynpipe::cli
