#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "model/profile.hpp"
#include "plan/plan.hpp"
#include "planner/cluster.hpp"
#include "planner/routes.hpp"

namespace dynpipe::planner {

/// A stage as the search moves it: layers [first, last] on `replicas` ranks, from position `begin`
/// of the rank order on.
struct Part {
  int first = 0, last = 0;
  int begin = 0, replicas = 1;
  bool recompute = false;

  friend bool operator==(const Part&, const Part&) = default;
};
using Parts = std::vector<Part>;

/// How the M microbatches of a group are dealt out to the replicas of a stage: each to the one that
/// would be through with it soonest.
struct Shares {
  std::vector<int> owners;  ///< replica of each microbatch, M entries
  double busiest = 1;       ///< the longest replica's time, over that of all M on the device
  double mean = 1;          ///< of a microbatch, over its time on the device
  double slowest = 1;       ///< slowdown of the slowest replica, idle or not
  int most = 1;             ///< microbatches of the replica that owns most
  int working = 1;          ///< replicas that own any
};

/// What messages between two positions of the rank order take.
struct LinkCost {
  double latency_s = 0;
  double s_per_byte = 0;  ///< each way, both ways busy
  double overlap = 1;

  double transfer_s(double bytes) const { return bytes > 0 ? latency_s + bytes * s_per_byte : 0; }
  friend bool operator==(const LinkCost&, const LinkCost&) = default;
};

/// What runs of layers cost on the ranks of a cluster, in constant time each: sums over a profile
/// for one batch cut into M microbatches (of the mean of its two sizes), shares of replicas, and
/// the links between neighbours in the rank order.
class CostModel {
 public:
  /// `order`: the cluster's ranks by position. Disturbances and jitter are left out. Shares of up
  /// to `most_replicas` are at hand, those of more are worked out when they are asked for.
  CostModel(const model::Profile& profile, const Cluster& cluster, std::vector<int> order,
            std::int64_t batch, int microbatches, int most_replicas);

  int layers() const { return static_cast<int>(output_bytes_.size()); }
  int ranks() const { return static_cast<int>(order_.size()); }
  int microbatches() const { return microbatches_; }
  int most_replicas() const { return most_replicas_; }
  const std::vector<int>& order() const { return order_; }
  bool equal_ranks() const { return equal_ranks_; }

  // Of layers [first, last], for a microbatch on the profile's device, in seconds.
  double forward_s(int first, int last) const { return run(forward_, first, last); }
  double backward_input_s(int first, int last) const { return run(backward_input_, first, last); }
  double backward_weight_s(int first, int last) const { return run(backward_weight_, first, last); }
  /// All steps, the second forward of a stage that recomputes among them.
  double work_s(int first, int last, bool recompute = false) const {
    return run(work_, first, last) + (recompute ? forward_s(first, last) : 0);
  }
  double update_s(int first, int last) const { return run(update_, first, last); }

  // Of layers [first, last], in bytes.
  double parameter_bytes(int first, int last) const { return run(parameters_, first, last); }
  double state_bytes(int first, int last) const { return run(state_, first, last); }
  /// What a microbatch of the larger size keeps from its forward to its backward.
  double kept_bytes(int first, int last) const { return run(kept_, first, last) * samples_; }
  /// The message after a layer, of a microbatch of mean size; the gradient that comes back is as
  /// large.
  double message_bytes(int layer) const {
    return output_bytes_[static_cast<std::size_t>(layer)] * mean_samples_;
  }
  /// The same of the larger size, as a buffer; of layer -1, the model's input, 0.
  double buffer_bytes(int layer) const {
    return layer < 0 ? 0 : output_bytes_[static_cast<std::size_t>(layer)] * samples_;
  }
  /// Share of the model's parameters.
  double parameter_share(int first, int last) const;

  /// Not for several threads at once.
  const Shares& shares(int begin, int replicas) const;
  /// Between positions p and p + 1.
  const LinkCost& link(int position) const { return links_[static_cast<std::size_t>(position)]; }
  /// Between two neighbouring stages: the mean over the microbatches' owners, where links differ
  /// and ranks are few, else that of the two ranks next to each other.
  LinkCost link(const Part& before, const Part& after) const;
  /// Of the last link to position p, if messages from both its neighbours come over it; else 0.
  double entry_s_per_byte(int position) const {
    return entries_[static_cast<std::size_t>(position)];
  }
  /// The time that messages of a microbatch, from before and from behind, take
  /// on the links to a rank of a stage, at least.
  double carrying_s(int begin, int replicas, double bytes_before, double bytes_behind) const;
  /// Work that positions [begin, end) do in the time in which the profile's device does one.
  double speed(int begin, int end) const {
    return speed_[static_cast<std::size_t>(end)] - speed_[static_cast<std::size_t>(begin)];
  }
  /// Least memory of positions [begin, begin + count); infinite where none is said.
  double memory_bytes(int begin, int count) const;

 private:
  using Sums = std::vector<double>;
  static double run(const Sums& sums, int first, int last) {
    return sums[static_cast<std::size_t>(last) + 1] - sums[static_cast<std::size_t>(first)];
  }
  void add_layers(const model::Profile& profile, std::int64_t batch);
  void add_links(const Cluster& cluster);
  void add_shares();
  LinkCost route_cost(Routes& routes, const Cluster& cluster, int from, int to) const;

  std::vector<int> order_;
  int microbatches_, most_replicas_;
  double samples_ = 1, mean_samples_ = 1;
  bool equal_ranks_ = true;
  Sums forward_, backward_input_, backward_weight_, work_, update_;
  Sums parameters_, state_, kept_;
  std::vector<double> output_bytes_;
  std::vector<double> slowdowns_;  ///< by position
  std::vector<Shares> shares_;
  mutable std::map<std::pair<int, int>, Shares> larger_shares_;  ///< as they were asked for
  std::vector<LinkCost> links_;
  std::vector<LinkCost> pairs_;  ///< of any two positions, where links differ and ranks are few
  std::vector<double> entries_;
  std::vector<double> sizes_;
  Sums speed_;
  std::vector<double> memory_;
};

/// Sizes of the microbatches of a group of `batch` samples, over their mean; larger ones first.
std::vector<double> relative_sizes(std::int64_t batch, int microbatches);
/// Microbatches of these sizes dealt out to replicas of these slowdowns.
Shares deal_out(std::span<const double> slowdowns, std::span<const double> sizes);

}  // namespace dynpipe::planner
