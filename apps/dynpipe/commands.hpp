#pragma once

#include <exception>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/world.hpp"

/// The program's commands: one file each, one row each in `commands.cpp`. This and main.cpp are the
/// only places where errors are caught.
namespace dynpipe::cli {

struct Command {
  std::string_view name, summary;
  /// Runs with main's own arguments (argv[1] is the command's name) and returns the exit code.
  int (*run)(int argc, char** argv);
};

std::span<const Command> commands();

/// "dynpipe: message" on standard error.
void complain(std::string_view message);

/// The words after the command's name.
std::vector<std::string> words_of(int argc, char** argv);

/// What a rank does with a failure that the others do not know of: says it and ends the job.
using OnFailure = std::function<void(const std::exception&)>;
/// Runs `body` on all MPI ranks. What all ranks know to be wrong (AgreedError) is said by rank 0,
/// and all return its code; what goes wrong on one rank is said by that rank, which then ends the
/// others.
int run_on_ranks(int argc, char** argv,
                 const std::function<void(comm::World&, const OnFailure&)>& body);
/// Runs `body` in this process alone, without MPI; its errors are said once, with their exit code.
int run_alone(const std::function<void()>& body);

int train(int argc, char** argv);
int eval(int argc, char** argv);
int profile(int argc, char** argv);
int doctor(int argc, char** argv);
int simulate(int argc, char** argv);
int plan(int argc, char** argv);
int forest(int argc, char** argv);
int checkpoint(int argc, char** argv);
int trace(int argc, char** argv);
int data(int argc, char** argv);

}  // namespace dynpipe::cli
