#include "app/doctor.hpp"

#include "commands.hpp"

namespace dynpipe::cli {

int doctor(int argc, char** argv) {
  int findings = 0;
  const int failure = run_on_ranks(argc, argv, [&](comm::World& world, const OnFailure&) {
    findings = app::doctor(words_of(argc, argv), world);
  });
  return failure != 0 ? failure : findings;
}

}  // namespace dynpipe::cli
