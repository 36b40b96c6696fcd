#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <new>

#include "base/errors.hpp"
#include "comm/mpi/mpi.hpp"
#include "commands.hpp"

namespace dynpipe::cli {
namespace {

struct Failure {
  base::ExitCode code;
  std::string message;
};

Failure describe(const std::exception& failure) {
  if (const auto* error = dynamic_cast<const base::Error*>(&failure)) {
    return {error->code(), error->what()};
  }
  if (dynamic_cast<const std::bad_alloc*>(&failure) != nullptr) {
    return {base::ExitCode::failed_run, "not enough memory"};
  }
  return {base::ExitCode::failed_run, fmt::format("internal error: {}", failure.what())};
}

void end_job(comm::World& world, const std::exception& failure) {
  std::fflush(stdout);
  const auto [code, message] = describe(failure);
  complain(fmt::format("rank {}: {}", world.rank(), message));
  // Past a deadline the others wait too, for this rank or with it: give them time to say for what.
  if (dynamic_cast<const base::DeadlineError*>(&failure) != nullptr) sleep(2);
  world.abort(static_cast<int>(code));
}

}  // namespace

void complain(std::string_view message) {
  fmt::print(stderr, "dynpipe: {}\n", message);
  std::fflush(stderr);
}

std::vector<std::string> words_of(int argc, char** argv) {
  return {argv + 2, argv + argc};
}

int run_on_ranks(int argc, char** argv,
                 const std::function<void(comm::World&, const OnFailure&)>& body) {
  const std::unique_ptr<comm::World> world = comm::make_mpi_world(&argc, &argv);
  const auto on_failure = [&](const std::exception& failure) { end_job(*world, failure); };
  try {
    body(*world, on_failure);
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

int run_alone(const std::function<void()>& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& failure) {
    std::fflush(stdout);
    const auto [code, message] = describe(failure);
    complain(message);
    return static_cast<int>(code);
  }
}

}  // namespace dynpipe::cli
