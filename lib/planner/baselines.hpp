#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/profile.hpp"
#include "plan/plan.hpp"
#include "planner/cluster.hpp"

namespace dynpipe::planner {

/// What others plan, to be compared with.
enum class Baseline {
  uniform,          ///< as many layers a stage
  flops,            ///< equal FLOPs a stage
  pipedream,        ///< PipeDream's search (CutRule::bottleneck), for equal ranks
  gpipe,            ///< equal times a stage, flushed after every update
  dynpipe_authors,  ///< the published DynPipe's: transfers hidden between neighbours (no more)
  data,             ///< one stage of all ranks
};

constexpr Baseline k_baselines[] = {Baseline::uniform,         Baseline::flops,
                                    Baseline::pipedream,       Baseline::gpipe,
                                    Baseline::dynpipe_authors, Baseline::data};

std::string_view name_of(Baseline baseline);
std::optional<Baseline> baseline_named(std::string_view name);

constexpr plan::Schedule schedule_of(Baseline baseline) {
  return baseline == Baseline::gpipe ? plan::Schedule::gpipe : plan::Schedule::asynchronous;
}

struct BaselineRequest {
  std::int64_t batch = 1;
  int ranks = 1;  ///< of the cluster the first
  int microbatches = 8;
  plan::WeightPolicy policy = plan::WeightPolicy::double_buffer;
  std::span<const double> layer_flops;  ///< may be empty: then nothing is cut by them
};

/// Its plan for ranks of a cluster in their order, with equal shares and the least warm-up that
/// keeps every replica busy. Memory and delay are no concern of theirs. Empty where it has none.
std::optional<plan::Plan> baseline_plan(Baseline baseline, const model::Profile& profile,
                                        const Cluster& cluster, const BaselineRequest& request);

}  // namespace dynpipe::planner
