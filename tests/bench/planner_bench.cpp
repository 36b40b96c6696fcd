// The planner: how long it searches, and what its plans are worth beside others'.
// Lines of "search LAYERS RANKS MILLISECONDS", then "plan CHAIN CLUSTER ALGORITHM PERIOD_MS DELAY
// OBJECTIVE_MS", times predicted by the simulator. "planner_bench search" times only.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "app/text_file.hpp"
#include "nn/layer.hpp"
#include "planner/search.hpp"
#include "planner/workload.hpp"
#include "support/planner_cases.hpp"

namespace dynpipe {
namespace {

using planner::Cluster;
using planner::PlanChoice;
using planner::SearchRequest;

/// Of a rank in float32, about that of a GPU of the links' generation.
constexpr double k_flops_per_s = 5e12;
constexpr double k_kappa = 0.05;

/// Median of three.
double search_ms(int layers, int ranks) {
  const model::Profile profile = testing::random_profile(layers, 1);
  const Cluster cluster = planner::uniform_cluster(ranks, 5e-6, 12.5e9);
  SearchRequest request;
  request.batch = 256;
  request.microbatches = {8};
  request.kappa = k_kappa;
  std::vector<double> times;
  for (int i = 0; i < 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    planner::search(profile, cluster, request);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    times.push_back(1e3 * passed.count());
  }
  std::sort(times.begin(), times.end());
  return times[1];
}

/// 25 equal blocks of width 1024 and 128 tokens, and a head for a vocabulary of 30,522.
model::Profile bert_profile() {
  constexpr double k_tokens = 128, k_width = 1024, k_words = 30'522;
  const double block_s = (24 * k_width + 4 * k_tokens) * k_width * k_tokens / k_flops_per_s;
  model::Profile profile = testing::equal_profile(
      25, {block_s, block_s, block_s}, static_cast<std::int64_t>(4 * k_tokens * k_width),
      static_cast<std::int64_t>(4 * 12 * k_width * k_width));
  model::LayerProfile head = profile.layers.back();
  const double head_s = 2 * k_width * k_words * k_tokens / k_flops_per_s;
  head.name = "head";
  head.times = {{head_s, head_s, head_s}};
  head.output_bytes = static_cast<std::int64_t>(4 * k_tokens * k_words);
  head.parameter_bytes = static_cast<std::int64_t>(4 * k_width * k_words);
  profile.layers.push_back(head);
  return profile;
}

struct Chain {
  std::string name;
  model::Profile profile;
  std::vector<double> layer_flops;
  std::int64_t batch;
};

Chain chain_of(const std::string& name, std::int64_t batch) {
  const std::string file = std::string(DYNPIPE_SOURCE_DIR) + "/models/" + name + ".json";
  const model::Model model = model::parse_model(app::read_text_file(file), file, nn::layer_types());
  Chain chain{name, planner::profile_by_flops(model, k_flops_per_s), {}, batch};
  for (const model::Layer& layer : model.layers) {
    chain.layer_flops.push_back(static_cast<double>(layer.facts.forward_flops));
  }
  return chain;
}

Chain bert_chain() {
  Chain chain{"bert", bert_profile(), {}, 64};
  for (const model::LayerProfile& layer : chain.profile.layers) {
    chain.layer_flops.push_back(layer.times.front().forward_s);
  }
  return chain;
}

void tell(const Chain& chain, const Cluster& cluster, std::string_view algorithm,
          const PlanChoice& choice) {
  fmt::print("plan {} {} {} {:.6g} {:.4g} {:.6g}\n", chain.name, cluster.name, algorithm,
             1e3 * choice.period_s, choice.delay, 1e3 * choice.objective);
}

void compare(const Chain& chain, const Cluster& cluster) {
  SearchRequest request;
  request.batch = chain.batch;
  request.microbatches = {8, 16, 32};
  request.schedules = {plan::Schedule::asynchronous, plan::Schedule::gpipe};
  request.kappa = k_kappa;
  request.layer_flops = chain.layer_flops;
  request.effort = 8;  // as dynpipe plan has it
  tell(chain, cluster, "dynpipe", planner::search(chain.profile, cluster, request));
  constexpr std::pair<const char*, bool SearchRequest::*> k_ablations[] = {
      {"no-staleness", &SearchRequest::staleness},
      {"no-communication", &SearchRequest::communication},
      {"least-warmups", &SearchRequest::spare_warmup}};
  for (const auto& [name, what] : k_ablations) {
    SearchRequest without = request;
    without.*what = false;
    without.baselines = false;
    tell(chain, cluster, name, planner::search(chain.profile, cluster, without));
  }
  for (const planner::Baseline baseline : planner::k_baselines) {
    std::optional<PlanChoice> best;
    for (const int m : request.microbatches) {
      const auto plan = planner::baseline_plan(
          baseline, chain.profile, cluster,
          {request.batch, cluster.size(), m, request.policies.front(), request.layer_flops});
      const PlanChoice choice = planner::judged(*plan, chain.profile, cluster, request);
      if (!best || choice.objective < best->objective) best = choice;
    }
    tell(chain, cluster, planner::name_of(baseline), *best);
  }
}

}  // namespace
}  // namespace dynpipe

int main(int argc, char** argv) {
  using namespace dynpipe;
  for (const auto& [layers, ranks] : {std::pair{100, 16}, {1000, 1024}}) {
    fmt::print("search {} {} {:.3f}\n", layers, ranks, search_ms(layers, ranks));
  }
  if (argc > 1 && std::strcmp(argv[1], "search") == 0) return 0;
  const std::vector<Chain> chains = {chain_of("vgg16", 256), chain_of("resnet50", 256),
                                     bert_chain()};
  for (const char* name : {"8x-25gbe", "8x-hetero"}) {
    const std::string file = std::string(DYNPIPE_SOURCE_DIR) + "/data/clusters/" + name + ".json";
    const Cluster cluster = planner::parse_cluster(app::read_text_file(file), file);
    for (const Chain& chain : chains) compare(chain, cluster);
  }
}
