#include <fmt/format.h>

#include <sstream>

#include "app/checkpoint_report.hpp"
#include "app/option_group.hpp"
#include "app/option_parser.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

namespace po = boost::program_options;
using base::InputError;

OptionGroup describe(const std::string& command, CheckpointReportOptions& o) {
  OptionGroup group("Options");
  if (command == "show") {
    option(group, "part", &o.part, "NAME", "print plan, config or progress alone (JSON)");
  }
  group.add_options()("help", "this text");
  return group;
}

const char* what_it_does(const std::string& command) {
  if (command == "ls") {
    return "ls FOLDER\n\n"
           "Lists the checkpoints of a run: updates and whole epochs that were made, training\n"
           "loss (of the epoch under way, else of the last), accuracy of the last evaluation,\n"
           "size, age, and whether they are complete.\n";
  }
  if (command == "show") {
    return "show PLACE\n\n"
           "What a checkpoint (a folder step-N, or the newest in a folder of them) says of\n"
           "itself: stages, versions of weights, tensors, evaluations, options. --part plan\n"
           "prints what train --plan takes.\n";
  }
  return "verify PLACE\n\n"
         "Reads a checkpoint, or all in a folder, to the last byte: every file's digest, every\n"
         "tensor's checksum, every link. Says what is damaged.\n";
}

}  // namespace

std::string checkpoint_report_help(const std::string& command) {
  CheckpointReportOptions options;
  std::ostringstream text;
  text << "usage: dynpipe checkpoint " << what_it_does(command) << "\n"
       << describe(command, options) << "\nExit codes: 0 done, 2 wrong usage or input"
       << (command == "verify" ? ", or damaged.\n" : ".\n");
  return text.str();
}

std::optional<CheckpointReportOptions> parse_checkpoint_report_options(
    const std::string& command, const std::vector<std::string>& words) {
  CheckpointReportOptions options;
  OptionGroup all;
  all.add(describe(command, options)).add_options()("place", po::value(&options.place), "");
  po::positional_options_description places;
  places.add("place", 1);
  if (!parse_words("checkpoint " + command, words, all, places)) return std::nullopt;
  if (options.place.empty()) {
    throw InputError("", command == "ls" ? "FOLDER" : "PLACE",
                     fmt::format("is missing; see dynpipe checkpoint {} --help", command));
  }
  if (!options.part.empty() && options.part != "plan" && options.part != "config" &&
      options.part != "progress") {
    throw InputError(
        "", "--part",
        fmt::format("'{}' is not known; known are plan, config, progress", options.part));
  }
  return options;
}

}  // namespace dynpipe::app
