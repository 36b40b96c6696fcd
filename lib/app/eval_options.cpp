#include "app/eval_options.hpp"

#include <fmt/format.h>

#include <sstream>

#include "app/option_group.hpp"
#include "app/option_parser.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

using base::InputError;

constexpr std::int64_t k_most_samples = 1'000'000;

/// Values as their words stand on the command line, before they are checked.
struct Raw {
  std::string split = "test", dtype = "float32";
};

OptionGroup describe(EvalOptions& o, Raw& raw) {
  OptionGroup group("Options");
  option(group, "model", &o.run.model, "FILE", "model description; required");
  option(group, "data", &o.run.data, "PLACE",
         "data set, as train has it (its training samples say how to normalise); required");
  option(group, "weights", &o.weights, "FILE",
         "weights (HDF5), written by train --save-weights; required");
  option(group, "split", &raw.split, "NAME", "samples to evaluate: test or train");
  option(group, "predictions", &o.predictions, "FILE",
         "write /labels [N], /predictions [N] and /logits [N,classes] to FILE (HDF5)");
  option(group, "microbatch", &o.run.batch, "N", "samples that go through the pipeline at a time");
  option(group, "stages", &o.run.stages, "N",
         "pipeline stages, cut to equal FLOPs (default: one a rank)");
  option(group, "dtype", &raw.dtype, "NAME", "float32 or float64 (reference maths: slow)");
  option(group, "backend", &o.run.backend, "NAME", "auto, onednn or reference");
  option(group, "threads", &o.run.threads, "N",
         "threads of each rank's maths (default as in train)");
  option(group, "deadline", &o.run.deadline_s, "SECONDS",
         "give up when a rank has waited so long for another");
  group.add_options()("help", "this text");
  return group;
}

}  // namespace

std::string eval_help() {
  EvalOptions options;
  Raw raw;
  std::ostringstream text;
  text << "usage: [mpirun -n RANKS] dynpipe eval --model FILE --data PLACE --weights FILE "
          "[options]\n\n"
          "Loss, accuracy and confusions of a trained network, evaluated over a pipeline of all\n"
          "ranks.\n"
       << describe(options, raw)
       << "\nExit codes: 0 evaluated, 1 the run failed, 2 wrong usage or input.\n";
  return text.str();
}

std::optional<EvalOptions> parse_eval_options(const std::vector<std::string>& words) {
  EvalOptions options;
  Raw raw;
  const auto parsed = parse_words("eval", words, describe(options, raw));
  if (!parsed) return std::nullopt;
  options.run.texts = texts_of(*parsed);
  for (const auto& [name, value] :
       {std::pair{"--model", &options.run.model}, std::pair{"--data", &options.run.data},
        std::pair{"--weights", &options.weights}}) {
    if (value->empty()) throw InputError("", name, "is missing");
  }
  if (raw.split == "train") {
    options.split = data::Split::train;
  } else if (raw.split != "test") {
    throw InputError("", "--split",
                     fmt::format("'{}' is not known; known are test, train", raw.split));
  }
  if (options.run.batch < 1 || options.run.batch > k_most_samples) {
    throw InputError("", "--microbatch",
                     fmt::format("must be 1 to {}, is {}", k_most_samples, options.run.batch));
  }
  check_run_options(raw.dtype, options.run);
  return options;
}

}  // namespace dynpipe::app
