#include "app/eval_session.hpp"
#include "commands.hpp"

namespace dynpipe::cli {

int eval(int argc, char** argv) {
  return run_on_ranks(argc, argv, [&](comm::World& world, const OnFailure& on_failure) {
    app::evaluate(words_of(argc, argv), world, on_failure);
  });
}

}  // namespace dynpipe::cli
