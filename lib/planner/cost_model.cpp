#include "planner/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "planner/routes.hpp"

namespace dynpipe::planner {
namespace {

std::size_t at(int index) {
  return static_cast<std::size_t>(index);
}

void push_sum(std::vector<double>& sums, double value) {
  sums.push_back(sums.back() + value);
}

}  // namespace

std::vector<double> relative_sizes(std::int64_t batch, int microbatches) {
  std::vector<double> sizes;
  for (int j = 0; j < microbatches; ++j) {
    const std::int64_t samples = batch / microbatches + (j < batch % microbatches ? 1 : 0);
    sizes.push_back(static_cast<double>(samples) * microbatches / static_cast<double>(batch));
  }
  return sizes;
}

Shares deal_out(std::span<const double> slowdowns, std::span<const double> sizes) {
  const std::size_t replicas = slowdowns.size();
  const auto microbatches = static_cast<double>(sizes.size());
  std::vector<double> busy(replicas, 0);
  std::vector<int> counts(replicas, 0);
  Shares shares;
  for (const double size : sizes) {
    std::size_t next = 0;  // of equals the first
    const auto through = [&](std::size_t r) { return busy[r] + size * slowdowns[r]; };
    for (std::size_t r = 1; r < replicas; ++r) {
      if (through(r) < through(next) * (1 - 1e-12)) next = r;
    }
    busy[next] = through(next);
    ++counts[next];
    shares.owners.push_back(static_cast<int>(next));
  }
  shares.busiest = *std::max_element(busy.begin(), busy.end()) / microbatches;
  shares.mean = std::accumulate(busy.begin(), busy.end(), 0.0) / microbatches;
  shares.slowest = *std::max_element(slowdowns.begin(), slowdowns.end());
  shares.most = *std::max_element(counts.begin(), counts.end());
  shares.working =
      static_cast<int>(replicas) - static_cast<int>(std::count(counts.begin(), counts.end(), 0));
  return shares;
}

CostModel::CostModel(const model::Profile& profile, const Cluster& cluster, std::vector<int> order,
                     std::int64_t batch, int microbatches, int most_replicas)
    : order_(std::move(order)),
      microbatches_(microbatches),
      most_replicas_(std::min(most_replicas, ranks())) {
  sizes_ = relative_sizes(batch, microbatches);
  add_layers(profile, batch);
  speed_ = {0};
  for (int rank : order_) {
    const ClusterRank& described = cluster.ranks[at(rank)];
    push_sum(speed_, 1 / described.slowdown);
    slowdowns_.push_back(described.slowdown);
    memory_.push_back(described.memory_bytes == ClusterRank{}.memory_bytes
                          ? std::numeric_limits<double>::infinity()
                          : static_cast<double>(described.memory_bytes));
    equal_ranks_ &= described.slowdown == cluster.ranks[at(order_.front())].slowdown;
  }
  add_links(cluster);
  add_shares();
}

void CostModel::add_layers(const model::Profile& profile, std::int64_t batch) {
  const std::int64_t floor = batch / microbatches_;
  const std::int64_t larger = batch % microbatches_;
  const std::int64_t ceil = larger > 0 ? floor + 1 : floor;
  samples_ = static_cast<double>(ceil);
  mean_samples_ = static_cast<double>(batch) / microbatches_;
  const double share = static_cast<double>(larger) / microbatches_;
  for (Sums* sums : {&forward_, &backward_input_, &backward_weight_, &work_, &update_, &parameters_,
                     &state_, &kept_}) {
    *sums = {0};
  }
  for (int i = 0; i < static_cast<int>(profile.layers.size()); ++i) {
    const model::LayerProfile& layer = profile.layers[at(i)];
    const model::LayerTimes large = profile.times(i, ceil);
    const model::LayerTimes small = floor > 0 ? profile.times(i, floor) : model::LayerTimes{};
    const auto mean = [&](double model::LayerTimes::*step) {
      return share * large.*step + (1 - share) * small.*step;
    };
    const double forward = mean(&model::LayerTimes::forward_s);
    const double backward_input = mean(&model::LayerTimes::backward_input_s);
    const double backward_weight = mean(&model::LayerTimes::backward_weight_s);
    push_sum(forward_, forward);
    push_sum(backward_input_, backward_input);
    push_sum(backward_weight_, backward_weight);
    push_sum(work_, forward + backward_input + backward_weight);
    push_sum(update_, layer.update_s);
    push_sum(parameters_, static_cast<double>(layer.parameter_bytes));
    push_sum(state_, static_cast<double>(layer.state_bytes));
    push_sum(kept_, static_cast<double>(layer.kept_bytes));
    output_bytes_.push_back(static_cast<double>(layer.output_bytes));
  }
}

LinkCost CostModel::route_cost(Routes& routes, const Cluster& cluster, int from, int to) const {
  const Route& route = routes.between(order_[at(from)], order_[at(to)]);
  LinkCost cost{route.latency_s, 0, route.overlap};
  for (int channel : route.channels) {
    const bool shared = !cluster.links[at(channel / 2)].full_duplex;
    cost.s_per_byte = std::max(cost.s_per_byte, (shared ? 2 : 1) / routes.capacity(channel));
  }
  return cost;
}

void CostModel::add_links(const Cluster& cluster) {
  constexpr int k_few_ranks = 64;
  Routes routes(cluster);
  bool equal = true;
  for (int p = 0; p + 1 < ranks(); ++p) {
    links_.push_back(route_cost(routes, cluster, p, p + 1));
    equal &= links_.back() == links_.front();
  }
  for (int p = 0; p < ranks(); ++p) {
    entries_.push_back(0);
    if (p == 0 || p + 1 == ranks()) continue;
    const int before = routes.between(order_[at(p - 1)], order_[at(p)]).channels.back();
    const int behind = routes.between(order_[at(p + 1)], order_[at(p)]).channels.back();
    if (before == behind) entries_.back() = 1 / routes.capacity(before);
  }
  if (equal || ranks() > k_few_ranks) return;
  for (int from = 0; from < ranks(); ++from) {
    for (int to = 0; to < ranks(); ++to) {
      pairs_.push_back(from == to ? LinkCost{} : route_cost(routes, cluster, from, to));
    }
  }
}

LinkCost CostModel::link(const Part& before, const Part& after) const {
  if (pairs_.empty() || (before.replicas == 1 && after.replicas == 1)) {
    return link(after.begin - 1);
  }
  const std::vector<int>& from = shares(before.begin, before.replicas).owners;
  const std::vector<int>& to = shares(after.begin, after.replicas).owners;
  LinkCost mean{0, 0, 1};
  for (int j = 0; j < microbatches_; ++j) {
    const LinkCost& pair =
        pairs_[at((before.begin + from[at(j)]) * ranks() + after.begin + to[at(j)])];
    mean.latency_s += pair.latency_s / microbatches_;
    mean.s_per_byte += pair.s_per_byte / microbatches_;
    mean.overlap = std::min(mean.overlap, pair.overlap);
  }
  return mean;
}

double CostModel::carrying_s(int begin, int replicas, double bytes_before,
                             double bytes_behind) const {
  const double share = static_cast<double>(shares(begin, replicas).most) / microbatches_;
  double fastest = std::numeric_limits<double>::infinity();
  for (int p = begin; p < begin + replicas; ++p) fastest = std::min(fastest, entries_[at(p)]);
  return (bytes_before + bytes_behind) * share * fastest;
}

void CostModel::add_shares() {
  const int starts = equal_ranks_ ? 1 : ranks();
  for (int begin = 0; begin < starts; ++begin) {
    for (int replicas = 1; replicas <= most_replicas_; ++replicas) {
      // Beyond the last rank nobody asks; the entries keep the table's rows equally long.
      const int within = std::min(replicas, ranks() - begin);
      shares_.push_back(deal_out(std::span(slowdowns_).subspan(at(begin), at(within)), sizes_));
    }
  }
}

const Shares& CostModel::shares(int begin, int replicas) const {
  if (equal_ranks_) begin = 0;
  if (replicas <= most_replicas_) return shares_[at(begin * most_replicas_ + replicas - 1)];
  const auto known = larger_shares_.find({begin, replicas});
  if (known != larger_shares_.end()) return known->second;
  const auto slowdowns = std::span(slowdowns_).subspan(at(begin), at(replicas));
  return larger_shares_.emplace(std::pair(begin, replicas), deal_out(slowdowns, sizes_))
      .first->second;
}

double CostModel::parameter_share(int first, int last) const {
  return parameters_.back() > 0 ? parameter_bytes(first, last) / parameters_.back() : 0;
}

double CostModel::memory_bytes(int begin, int count) const {
  double least = std::numeric_limits<double>::infinity();
  for (int p = begin; p < begin + count; ++p) least = std::min(least, memory_[at(p)]);
  return least;
}

}  // namespace dynpipe::planner
