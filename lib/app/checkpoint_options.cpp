#include "app/checkpoint_options.hpp"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

using base::InputError;

constexpr std::int64_t k_many = 1'000'000'000;

std::int64_t parse_every(const std::string& text) {
  std::int64_t every = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), every);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || every < 1 ||
      every > k_many) {
    throw InputError("", "--checkpoint-every",
                     fmt::format("'{}' is neither a number of updates nor epoch", text));
  }
  return every;
}

}  // namespace

OptionGroup checkpoint_options(CheckpointOptions& o, RawCheckpointOptions& raw) {
  OptionGroup group("Saving and resuming");
  option(group, "checkpoint-dir", &o.folder, "FOLDER",
         "save the run's state in FOLDER; a signal (USR1, TERM) then stops it with exit code 75 "
         "once it has saved");
  option(group, "checkpoint-every", &raw.every, "N",
         "updates from one checkpoint to the next, or epoch (default)");
  option(group, "keep", &o.keep, "K", "newest checkpoints that are kept; 0: all");
  flag(group, "keep-best", &o.keep_best, "keep the one with the best test accuracy too");
  flag(group, "checkpoint-required", &o.required,
       "end the run where a checkpoint cannot be written (else it warns and trains on)");
  option(group, "resume", &o.resume, "PLACE",
         "go on from a checkpoint, or the newest of a folder; auto: the newest of "
         "--checkpoint-dir, or from the start where there is none");
  option(group, "init-from", &o.init_from, "PLACE",
         "start from the weights of a checkpoint or of a file that --save-weights wrote, where "
         "nothing is resumed");
  option(group, "init-fresh", &raw.fresh_layers, "LAYER,...",
         "init-from: layers that start anew, as a changed head does");
  return group;
}

void check_checkpoint_options(const RawCheckpointOptions& raw,
                              const boost::program_options::variables_map& values,
                              CheckpointOptions& o) {
  if (!raw.every.empty() && raw.every != "epoch") o.every = parse_every(raw.every);
  if (o.keep < 0) {
    throw InputError("", "--keep", fmt::format("must be at least 0, is {}", o.keep));
  }
  if (!o.enabled()) {
    for (const char* name : {"checkpoint-every", "keep", "keep-best", "checkpoint-required"}) {
      if (values.count(name) != 0 && !values[name].defaulted()) {
        throw InputError("", fmt::format("--{}", name), "means nothing without --checkpoint-dir");
      }
    }
    if (o.resume == "auto") {
      throw InputError("", "--resume",
                       "auto means the newest of --checkpoint-dir, which is missing");
    }
  }
  if (!o.resume.empty() && o.resume != "auto" && !o.init_from.empty()) {
    throw InputError("", "--init-from",
                     "starts a run; --resume goes on with one (auto, where there is one)");
  }
  std::istringstream names(raw.fresh_layers);
  for (std::string name; std::getline(names, name, ',');) o.fresh_layers.push_back(name);
  if (!o.fresh_layers.empty() && o.init_from.empty()) {
    throw InputError("", "--init-fresh", "means nothing without --init-from");
  }
}

}  // namespace dynpipe::app
