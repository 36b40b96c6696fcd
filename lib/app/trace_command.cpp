#include "app/trace_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "app/option_group.hpp"
#include "app/option_parser.hpp"
#include "app/terminal.hpp"
#include "app/text_file.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

namespace po = boost::program_options;
using base::InputError;

constexpr std::string_view k_help =
    "usage: dynpipe trace summary RUN.h5\n"
    "       dynpipe trace export RUN.h5 [--perfetto FILE] [--csv FOLDER]\n"
    "       dynpipe trace compare A.h5 B.h5\n"
    "       dynpipe trace whatif RUN.h5 [--plan FILE [--profile FILE]] [--undisturbed STAGE]\n\n"
    "  summary  where each stage's time went, which is the slowest, speed over time\n"
    "  export   events for ui.perfetto.dev, tables as CSV\n"
    "  compare  two runs beside one another\n"
    "  whatif   what an update would take under another plan, or with a stage undisturbed\n\n"
    "RUN.h5 is what train --trace wrote (schema: lib/io/README.md).\n"
    "dynpipe trace NAME --help tells the options.\n";

/// The words of one of the commands: files, and what its options are set to.
struct Words {
  std::vector<std::string> files;
  std::string perfetto, csv;
  WhatIf what_if;
};

OptionGroup options_of(const std::string& command, Words& words) {
  OptionGroup group("Options");
  if (command == "export") {
    option(group, "perfetto", &words.perfetto, "FILE", "write trace events (JSON)");
    option(group, "csv", &words.csv, "FOLDER", "write every table as FOLDER/NAME.csv");
  } else if (command == "whatif") {
    option(group, "plan", &words.what_if.plan, "FILE", "under this plan (JSON)");
    option(group, "profile", &words.what_if.profile, "FILE",
           "plan: tells the layers of a stage apart, by dynpipe profile (default: FLOPs)");
    option(group, "undisturbed", &words.what_if.undisturbed, "STAGE",
           "with this stage's steps as short as its shortest");
  }
  group.add_options()("help", "this text");
  return group;
}

std::string help_of(const std::string& command) {
  Words words;
  std::ostringstream text;
  const std::size_t line = k_help.find("dynpipe trace " + command);
  text << "usage: " << k_help.substr(line, k_help.find('\n', line) - line) << "\n\n"
       << options_of(command, words) << "\nExit codes: 0 done, 2 wrong usage or input.\n";
  return text.str();
}

/// Empty where help was asked for.
std::optional<Words> parse(const std::string& command, const std::vector<std::string>& given) {
  Words words;
  OptionGroup visible = options_of(command, words);
  OptionGroup all;
  all.add(visible).add_options()("files", po::value(&words.files));
  po::positional_options_description positional;
  positional.add("files", -1);
  if (!parse_words("trace " + command, given, all, positional)) return std::nullopt;
  const std::size_t wanted = command == "compare" ? 2 : 1;
  if (words.files.size() != wanted) {
    throw InputError(
        "", "trace " + command,
        fmt::format("needs {}, {} given; see dynpipe trace {} --help",
                    wanted == 1 ? "one file" : "two files", words.files.size(), command));
  }
  return words;
}

std::string export_trace(const Words& words) {
  if (words.perfetto.empty() && words.csv.empty()) {
    throw InputError("", "trace export", "needs --perfetto or --csv");
  }
  const TraceRun run = read_trace_run(words.files[0]);
  std::string text;
  if (!words.perfetto.empty()) {
    if (run.trace.events.empty()) {
      throw InputError(words.files[0], "/events",
                       "holds none, which --perfetto shows: train with --trace-events");
    }
    replace_text_file(words.perfetto, perfetto_text(run));
    text += fmt::format("events: {} (open it in ui.perfetto.dev)\n", words.perfetto);
  }
  if (!words.csv.empty()) {
    text += fmt::format("tables: {}\n", fmt::join(write_csv(run.trace, words.csv), " "));
  }
  return text;
}

}  // namespace

std::string trace_command(const std::vector<std::string>& words) {
  static const std::vector<std::string> k_known = {"summary", "export", "compare", "whatif"};
  const std::string command = words.empty() ? "" : words.front();
  if (command == "--help") return std::string(k_help);
  if (std::find(k_known.begin(), k_known.end(), command) == k_known.end()) {
    throw InputError("", "trace",
                     command.empty()
                         ? "summary, export, compare or whatif is missing; see dynpipe trace --help"
                         : fmt::format("'{}' is not known; known are {}{}", command,
                                       fmt::join(k_known, ", "), did_you_mean(command, k_known)));
  }
  const auto given = parse(command, {words.begin() + 1, words.end()});
  if (!given) return help_of(command);
  if (command == "export") return export_trace(*given);
  const TraceRun run = read_trace_run(given->files[0]);
  if (command == "summary") return describe_trace(run, charset_of_locale());
  if (command == "whatif") return what_if(run, given->what_if).text;
  return compare_traces(run, read_trace_run(given->files[1]));
}

}  // namespace dynpipe::app
