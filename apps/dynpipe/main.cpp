// dynpipe: the only place where errors are caught.
//
// What all ranks know to be wrong is said by rank 0, and all return its code. What goes wrong on
// one rank is said by that rank, which then ends the others.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "app/train_session.hpp"
#include "base/errors.hpp"
#include "comm/mpi/mpi.hpp"

namespace {

using namespace dynpipe;

constexpr std::string_view k_version = "dynpipe 0.1.0";
constexpr std::string_view k_help =
    "usage: mpirun -n RANKS dynpipe COMMAND [options]\n\n"
    "commands:\n"
    "  train   train a network as a pipeline over the MPI ranks\n\n"
    "dynpipe COMMAND --help tells a command's options.\n";

void complain(std::string_view message) {
  fmt::print(stderr, "dynpipe: {}\n", message);
  std::fflush(stderr);
}

/// This rank's failure is not known to the others: say it, and end them.
void end_job(comm::World& world, const std::exception& failure) {
  std::fflush(stdout);
  auto code = base::ExitCode::failed_run;
  if (const auto* error = dynamic_cast<const base::Error*>(&failure)) {
    code = error->code();
    complain(fmt::format("rank {}: {}", world.rank(), error->what()));
  } else if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr) {
    complain(fmt::format("rank {}: not enough memory", world.rank()));
  } else {
    complain(fmt::format("rank {}: internal error: {}", world.rank(), failure.what()));
  }
  // Past a deadline the others wait too, for this rank or with it: give them time to say for what.
  if (dynamic_cast<const base::DeadlineError*>(&failure) != nullptr) sleep(2);
  world.abort(static_cast<int>(code));
}

int run_train(int argc, char** argv) {
  const std::unique_ptr<comm::World> world = comm::make_mpi_world(&argc, &argv);
  const auto on_failure = [&](const std::exception& failure) { end_job(*world, failure); };
  try {
    app::train({argv + 2, argv + argc}, *world, on_failure);
    return 0;
  } catch (const comm::AgreedError& error) {
    std::fflush(stdout);
    if (world->rank() == 0) complain(error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& failure) {
    end_job(*world, failure);
  }
  return static_cast<int>(base::ExitCode::failed_run);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "train") return run_train(argc, argv);
  if (command == "--help" || command == "help") {
    fmt::print("{}", k_help);
    return 0;
  }
  if (command == "--version") {
    fmt::print("{}\n", k_version);
    return 0;
  }
  complain(command.empty() ? "a command is missing; see dynpipe --help"
                           : fmt::format("'{}' is not a command; see dynpipe --help", command));
  return static_cast<int>(base::ExitCode::bad_input);
}
