#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/counted.hpp"
#include "base/errors.hpp"
#include "plan/plan.hpp"

namespace dynpipe::plan {
namespace {

using base::counted;
using base::InputError;

/// Beyond a few microbatches a rank, a longer warm-up only makes weights older.
constexpr int k_most_warmup = 256;

std::string stage_field(int s, const char* field) {
  return fmt::format("stages[{}]: {}", s, field);
}

std::string layer_name(const model::Model& model, int layer) {
  return fmt::format("'{}'", model.layers[static_cast<std::size_t>(layer)].spec.name);
}

void validate_layers(const Plan& plan, const model::Model& model, const std::string& file) {
  int next = 0;
  for (int s = 0; s < plan.size(); ++s) {
    const Stage& stage = plan.stages[static_cast<std::size_t>(s)];
    if (stage.first < 0 || stage.last >= model.size()) {
      throw InputError(file, stage_field(s, "first"), "is not a layer of the model");
    }
    if (stage.last < stage.first) {
      throw InputError(file, stage_field(s, "last"),
                       fmt::format("{} comes before the stage's first layer {}: the stage is empty",
                                   layer_name(model, stage.last), layer_name(model, stage.first)));
    }
    if (stage.first > next) {
      throw InputError(file, stage_field(s, "first"),
                       fmt::format("is {}, which leaves a gap: {} is in no stage",
                                   layer_name(model, stage.first), layer_name(model, next)));
    }
    if (stage.first < next) {
      throw InputError(
          file, stage_field(s, "first"),
          fmt::format("is {}, which overlaps the stage before it", layer_name(model, stage.first)));
    }
    next = stage.last + 1;
  }
  if (next < model.size()) {
    throw InputError(file, stage_field(plan.size() - 1, "last"),
                     fmt::format("leaves a gap: {} is in no stage", layer_name(model, next)));
  }
}

void validate_ranks(const Plan& plan, int ranks, const std::string& file) {
  std::map<int, int> stage_of_rank;
  for (int s = 0; s < plan.size(); ++s) {
    const Stage& stage = plan.stages[static_cast<std::size_t>(s)];
    if (stage.ranks.empty()) throw InputError(file, stage_field(s, "ranks"), "is empty");
    for (int rank : stage.ranks) {
      if (rank < 0) {
        throw InputError(file, stage_field(s, "ranks"), fmt::format("rank {} is negative", rank));
      }
      const auto [entry, fresh] = stage_of_rank.emplace(rank, s);
      if (!fresh) {
        throw InputError(
            file, stage_field(s, "ranks"),
            fmt::format("rank {} is used twice (also in stages[{}])", rank, entry->second));
      }
    }
  }
  for (const auto& [rank, s] : stage_of_rank) {
    if (rank >= ranks) {
      throw InputError(file, stage_field(s, "ranks"),
                       fmt::format("rank {} is out of range: the job has {}, the plan uses {}",
                                   rank, counted(ranks, "rank"), stage_of_rank.size()));
    }
  }
  if (static_cast<int>(stage_of_rank.size()) < ranks) {
    int unused = 0;
    while (stage_of_rank.contains(unused)) ++unused;
    throw InputError(file, "stages",
                     fmt::format("the job has {}, the plan uses {}: rank {} has nothing to do",
                                 counted(ranks, "rank"), stage_of_rank.size(), unused));
  }
}

void validate_owners(const Plan& plan, const std::string& file) {
  for (int s = 0; s < plan.size(); ++s) {
    const Stage& stage = plan.stages[static_cast<std::size_t>(s)];
    if (static_cast<int>(stage.owners.size()) != plan.microbatches) {
      throw InputError(
          file, stage_field(s, "owners"),
          fmt::format(
              "has {} for {}",
              stage.owners.size() == 1 ? "1 entry" : fmt::format("{} entries", stage.owners.size()),
              counted(plan.microbatches, "microbatch")));
    }
    for (int owner : stage.owners) {
      if (owner < 0 || owner >= stage.replicas()) {
        throw InputError(file, stage_field(s, "owners"),
                         fmt::format("replica {} does not exist: the stage has {}", owner,
                                     counted(stage.replicas(), "rank")));
      }
    }
  }
}

void validate_warmups(const Plan& plan, const std::string& file) {
  for (int s = 0; s < plan.size(); ++s) {
    const Stage& stage = plan.stages[static_cast<std::size_t>(s)];
    const int least = plan.size() - 1 - s;
    if (stage.warmup < least) {
      throw InputError(file, stage_field(s, "warmup"),
                       fmt::format("must be at least {} ({} behind this one), is {}", least,
                                   counted(least, "stage"), stage.warmup));
    }
    const int most = k_most_warmup + 4 * plan.ranks();
    if (stage.warmup > most) {
      throw InputError(file, stage_field(s, "warmup"),
                       fmt::format("must be at most {}, is {}", most, stage.warmup));
    }
    if (s > 0 && stage.warmup > plan.stages[static_cast<std::size_t>(s - 1)].warmup) {
      throw InputError(
          file, stage_field(s, "warmup"),
          fmt::format("is {}, more than the {} of the stage before it, which would "
                      "wait for ever",
                      stage.warmup, plan.stages[static_cast<std::size_t>(s - 1)].warmup));
    }
  }
}

}  // namespace

void validate(const Plan& plan, const model::Model& model, int ranks, const std::string& file) {
  if (plan.microbatches < 1 || plan.microbatches > k_most_microbatches) {
    throw InputError(file, "microbatches",
                     fmt::format("must be 1 to {}, is {}", k_most_microbatches, plan.microbatches));
  }
  if (plan.stages.empty()) throw InputError(file, "stages", "is empty");
  if (plan.size() > model.size()) {
    throw InputError(file, "stages",
                     fmt::format("{} stages are more than the {} layers of the model", plan.size(),
                                 model.size()));
  }
  validate_layers(plan, model, file);
  validate_ranks(plan, ranks, file);
  validate_owners(plan, file);
  validate_warmups(plan, file);
}

}  // namespace dynpipe::plan
