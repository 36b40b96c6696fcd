#include "app/profile_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "app/option_group.hpp"
#include "base/errors.hpp"

namespace dynpipe::app {
namespace {

using base::InputError;

constexpr std::int64_t k_most_samples = 1'000'000;
constexpr double k_most_seconds = 86400;

struct Raw {
  std::string microbatches = "1,2,4,8", optimizer = "sgd", dtype = "float32";
};

OptionGroup describe(ProfileOptions& o, Raw& raw) {
  OptionGroup group("Options");
  option(group, "model", &o.train.model, "FILE",
         "model description (JSON, see models/README.md); required");
  option(group, "data", &o.train.data, "PLACE",
         "data set whose images to measure with, as for training (default: made-up pictures)");
  option(group, "batch", &o.train.batch, "N", "samples of a weight update, over all microbatches");
  option(group, "microbatches", &raw.microbatches, "M,M,...",
         "counts of microbatches in a batch, whose sizes are measured");
  option(group, "stages", &o.train.stages, "N",
         "stages of the plans that the profile is for, about: what a layer finds in the caches "
         "depends on what else its rank does (default: the number of ranks)");
  option(group, "optimizer", &raw.optimizer, "NAME", "sgd, adam, adamw or nadam");
  option(group, "momentum", &o.train.optimizer.momentum, "X", "sgd: momentum; 0 keeps no state");
  option(group, "out", &o.out, "FILE", "write the profile to FILE (JSON)");
  option(group, "seconds", &o.seconds, "S",
         "measure layers for so long at most; ends earlier when medians are known to 0.3 %");
  option(group, "dtype", &raw.dtype, "NAME", "float32 or float64 (reference maths: slow)");
  option(group, "backend", &o.train.backend, "NAME", "auto, onednn or reference");
  option(group, "threads", &o.train.threads, "N", "threads of each rank's maths, as for training");
  option(group, "deadline", &o.train.deadline_s, "SECONDS",
         "give up when a rank has waited so long for another");
  group.add_options()("help", "this text");
  return group;
}

void check(const ProfileOptions& o) {
  if (o.train.model.empty()) throw InputError("", "--model", "is missing");
  if (o.train.batch < 1 || o.train.batch > k_most_samples) {
    throw InputError("", "--batch", fmt::format("must be 1 to 1000000, is {}", o.train.batch));
  }
  for (const int m : o.microbatches) {
    if (m > o.train.batch || m > plan::k_most_microbatches) {
      throw InputError("", "--microbatches",
                       fmt::format("must be at most --batch ({}) and {}, has {}", o.train.batch,
                                   plan::k_most_microbatches, m));
    }
  }
  if (!(o.seconds > 0 && o.seconds <= k_most_seconds)) {
    throw InputError("", "--seconds",
                     fmt::format("must be above 0, at most {}, is {}", k_most_seconds, o.seconds));
  }
  const double momentum = o.train.optimizer.momentum;
  if (!(momentum >= 0 && momentum < 1)) {
    throw InputError("", "--momentum",
                     fmt::format("must be at least 0 and below 1, is {}", momentum));
  }
}

}  // namespace

std::string profile_help() {
  ProfileOptions options;
  Raw raw;
  std::ostringstream text;
  text << "usage: [mpirun -n RANKS] dynpipe profile --model FILE [options]\n\n"
          "Measures what each layer of a model takes here: forward, backward and update, in\n"
          "microseconds, and its bytes. On several ranks all measure at once, as they would\n"
          "train, and their links are measured too.\n"
       << describe(options, raw)
       << "\nExit codes: 0 measured, 1 the run failed, 2 wrong usage or input.\n";
  return text.str();
}

std::optional<ProfileOptions> parse_profile_options(const std::vector<std::string>& words) {
  ProfileOptions options;
  Raw raw;
  const auto values = parse_words("profile", words, describe(options, raw));
  if (!values) return std::nullopt;
  options.train.optimizer.kind = nn::optimizer_named(raw.optimizer);
  options.microbatches = parse_counts(raw.microbatches, "--microbatches");
  check(options);
  check_run_options(raw.dtype, options.train);
  options.texts = texts_of(*values);
  return options;
}

std::vector<std::int64_t> microbatch_sizes(std::int64_t batch,
                                           const std::vector<int>& microbatches) {
  std::vector<std::int64_t> sizes;
  for (const int m : microbatches) sizes.push_back((batch + m - 1) / m);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

}  // namespace dynpipe::app
