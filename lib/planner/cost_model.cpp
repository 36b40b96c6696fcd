#include "planner/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

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

Shares deal_out(std::span<const double> slowdowns, int microbatches) {
  const std::size_t replicas = slowdowns.size();
  std::vector<int> counts(replicas, 0);
  for (int j = 0; j < microbatches; ++j) {
    // To the one that would be through with one more soonest; of equals the first.
    std::size_t next = 0;
    const auto through = [&](std::size_t r) { return (counts[r] + 1) * slowdowns[r]; };
    for (std::size_t r = 1; r < replicas; ++r) {
      if (through(r) < through(next) * (1 - 1e-12)) next = r;
    }
    ++counts[next];
  }
  Shares shares;
  shares.busiest = shares.mean = shares.slowest = 0;
  shares.most = shares.working = 0;
  for (std::size_t r = 0; r < replicas; ++r) {
    shares.busiest = std::max(shares.busiest, counts[r] * slowdowns[r] / microbatches);
    shares.mean += counts[r] * slowdowns[r] / microbatches;
    shares.slowest = std::max(shares.slowest, slowdowns[r]);
    shares.most = std::max(shares.most, counts[r]);
    shares.working += counts[r] > 0 ? 1 : 0;
  }
  shares.owners =
      plan::spread_owners(std::vector<double>(counts.begin(), counts.end()), microbatches);
  return shares;
}

CostModel::CostModel(const model::Profile& profile, const Cluster& cluster, std::vector<int> order,
                     std::int64_t batch, int microbatches, int most_replicas)
    : order_(std::move(order)), microbatches_(microbatches), most_replicas_(std::min(most_replicas, ranks())) {
  add_layers(profile, batch);
  speed_ = {0};
  for (int rank : order_) {
    const ClusterRank& described = cluster.ranks[at(rank)];
    push_sum(speed_, 1 / described.slowdown);
    slowdowns_.push_back(described.slowdown);
    memory_.push_back(static_cast<double>(described.memory_bytes));
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
    const auto mean = [&](double model::LayerTimes::* step) {
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

void CostModel::add_links(const Cluster& cluster) {
  Routes routes(cluster);
  const auto positions = order_.size();
  std::vector<int> last_in(2 * positions, -1);  // channel into a position: from before, from behind
  for (std::size_t p = 0; p + 1 < positions; ++p) {
    const Route& there = routes.between(order_[p], order_[p + 1]);
    LinkCost cost{there.latency_s, 0, there.overlap};
    for (int channel : there.channels) {
      const bool shared = !cluster.links[at(channel / 2)].full_duplex;
      cost.s_per_byte = std::max(cost.s_per_byte, (shared ? 2 : 1) / routes.capacity(channel));
    }
    links_.push_back(cost);
    last_in[2 * (p + 1)] = there.channels.back();
    last_in[2 * p + 1] = routes.between(order_[p + 1], order_[p]).channels.back();
  }
  for (std::size_t p = 0; p < positions; ++p) {
    one_way_in_.push_back(last_in[2 * p] >= 0 && last_in[2 * p] == last_in[2 * p + 1]);
  }
}

void CostModel::add_shares() {
  const int starts = equal_ranks_ ? 1 : ranks();
  for (int begin = 0; begin < starts; ++begin) {
    for (int replicas = 1; replicas <= most_replicas_; ++replicas) {
      // Beyond the last rank nobody asks; the entries keep the table's rows equally long.
      const int within = std::min(replicas, ranks() - begin);
      shares_.push_back(deal_out(std::span(slowdowns_).subspan(at(begin), at(within)),
                                 microbatches_));
    }
  }
}

const Shares& CostModel::shares(int begin, int replicas) const {
  if (equal_ranks_) begin = 0;
  if (replicas <= most_replicas_) return shares_[at(begin * most_replicas_ + replicas - 1)];
  const auto known = larger_shares_.find({begin, replicas});
  if (known != larger_shares_.end()) return known->second;
  const auto slowdowns = std::span(slowdowns_).subspan(at(begin), at(replicas));
  return larger_shares_.emplace(std::pair(begin, replicas), deal_out(slowdowns, microbatches_))
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
