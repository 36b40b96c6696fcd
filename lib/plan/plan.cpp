#include "plan/plan.hpp"

#include <algorithm>
#include <set>

namespace dynpipe::plan {

int Stage::replica_of(int rank) const {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

int Stage::working_replicas() const {
  return static_cast<int>(std::set<int>(owners.begin(), owners.end()).size());
}

int Plan::ranks() const {
  int count = 0;
  for (const Stage& stage : stages) count += stage.replicas();
  return count;
}

int Plan::stage_of(int rank) const {
  for (int s = 0; s < size(); ++s) {
    if (stages[static_cast<std::size_t>(s)].replica_of(rank) >= 0) return s;
  }
  return -1;
}

int Plan::owner(int stage, std::int64_t microbatch) const {
  const Stage& held = stages[static_cast<std::size_t>(stage)];
  const int replica = held.owners[static_cast<std::size_t>(microbatch % microbatches)];
  return held.ranks[static_cast<std::size_t>(replica)];
}

int Plan::delay(int stage) const {
  if (synchronous()) return 0;
  const std::size_t deciding = policy == WeightPolicy::stash ? static_cast<std::size_t>(stage) : 0;
  return (stages[deciding].warmup + microbatches - 1) / microbatches;
}

std::span<const model::Layer> layers_of(const model::Model& model, const Stage& stage) {
  return std::span(model.layers)
      .subspan(static_cast<std::size_t>(stage.first),
               static_cast<std::size_t>(stage.last - stage.first + 1));
}

std::vector<int> spread_owners(const std::vector<double>& shares, int microbatches) {
  double total = 0;
  for (double share : shares) total += share;
  std::vector<int> owners;
  std::vector<int> owned(shares.size(), 0);
  for (int j = 0; j < microbatches; ++j) {
    // The replica that is furthest behind what is due to it by now; of equals the first.
    const auto behind = [&](std::size_t r) { return shares[r] * (j + 1) / total - owned[r]; };
    std::size_t next = 0;
    for (std::size_t r = 1; r < shares.size(); ++r) {
      if (behind(r) > behind(next) + 1e-9) next = r;
    }
    ++owned[next];
    owners.push_back(static_cast<int>(next));
  }
  return owners;
}

std::vector<int> default_warmups(const std::vector<Stage>& stages) {
  std::vector<int> warmups(stages.size(), 0);
  for (std::size_t s = stages.size() - 1; s-- > 0;) {
    warmups[s] =
        warmups[s + 1] + std::max(stages[s].working_replicas(), stages[s + 1].working_replicas());
  }
  return warmups;
}

}  // namespace dynpipe::plan
