#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/model.hpp"

namespace dynpipe::plan {

enum class Schedule {
  gpipe,         ///< all forwards of a group, then all backwards, then the update
  one_f_one_b,   ///< "1f1b": alternating within a group, flushed at its end
  zb_h1,         ///< "zb-h1": 1f1b whose gradients of weights fill what would be waiting at its end
  asynchronous,  ///< "async": alternating without any flush
};

/// Which version an asynchronous group uses.
enum class WeightPolicy {
  stash,          ///< each stage its own delay, ceil(W_s / M) (PipeDream)
  double_buffer,  ///< "2bw": all stages that of the first; two versions where M >= W_0
};

/// Of an update group: more would be smaller than any sensible sample count.
constexpr int k_most_microbatches = 4096;

/// A part of the model and the ranks that compute it.
struct Stage {
  int first = 0;           ///< first layer
  int last = 0;            ///< last layer, included
  std::vector<int> ranks;  ///< the replicas' MPI ranks
  /// Which replica (index into `ranks`) owns microbatch j of every group; M entries.
  std::vector<int> owners;
  int warmup = 0;  ///< W_s: forwards before the first backward
  /// Keep only the input of a microbatch in flight, and run its forward again before its backward.
  bool recompute = false;

  int replicas() const { return static_cast<int>(ranks.size()); }
  /// Replicas that own a microbatch.
  int working_replicas() const;
  /// Index of `rank` in `ranks`, or -1.
  int replica_of(int rank) const;
};

/// How a model is trained on a number of ranks: pure data, the same on every rank.
///
/// Microbatch k = g M + j is the j-th of update group g. Delay: group g runs on stage s wholly on
/// version max(b, g - delay(s)), b the oldest version held: a function of the plan, never of
/// timing.
struct Plan {
  Schedule schedule = Schedule::asynchronous;
  WeightPolicy policy = WeightPolicy::double_buffer;
  int microbatches = 1;  ///< M, of an update group
  std::vector<Stage> stages;

  int size() const { return static_cast<int>(stages.size()); }
  int ranks() const;
  /// Stage of a rank, or -1.
  int stage_of(int rank) const;
  /// The rank that owns microbatch k on stage s.
  int owner(int stage, std::int64_t microbatch) const;
  /// tau_s, in updates: 0 in synchronous schedules.
  int delay(int stage) const;
  bool synchronous() const { return schedule != Schedule::asynchronous; }
};

/// The layers of a stage.
std::span<const model::Layer> layers_of(const model::Model& model, const Stage& stage);

/// What the command line says of a plan that is not written out.
struct PlanRequest {
  Schedule schedule = Schedule::asynchronous;
  WeightPolicy policy = WeightPolicy::double_buffer;
  int microbatches = 1;
  std::vector<int> replicas;  ///< per stage; its length is the number of stages
};

/// Last layer of each of as many non-empty runs of layers as `replicas` has entries, such that the
/// dearest run, its layers' costs over its replicas, is as cheap as it gets. At least as many
/// layers as runs.
std::vector<int> balanced_ends(const std::vector<double>& costs, const std::vector<int>& replicas);

/// Stages of as equal a forward FLOP count as a chain can be cut into (the largest is least), ranks
/// in order, equal shares, the least warm-up that keeps every replica busy. Throws InputError.
Plan equal_flops_plan(const model::Model& model, const PlanRequest& request);

/// Marks the stages that recompute: "all", "none", or their numbers, such as "0,2". Throws
/// InputError that names `field`.
void set_recompute(Plan& plan, std::string_view which, const std::string& field);

/// Owner pattern in which replica r owns shares[r] / sum(shares) of M microbatches as nearly as
/// whole ones can, spread evenly. With equal shares: 0, 1, .., R-1, 0, 1, ...
std::vector<int> spread_owners(const std::vector<double>& shares, int microbatches);

/// W_s = W_{s+1} + max(R_s, R_{s+1}), the last stage's 0, R counting replicas that own a
/// microbatch: every one of a neighbour has one in hand. With single replicas S - 1 - s, the least
/// there is.
std::vector<int> default_warmups(const std::vector<Stage>& stages);

/// Throws InputError (`file` and field named) unless the plan can run this model on `ranks` ranks:
/// stages cover every layer once and in order, every rank of the job is used exactly once, owner
/// patterns name existing replicas, W is enough, M positive.
void validate(const Plan& plan, const model::Model& model, int ranks, const std::string& file);

/// Reads and validates a plan file. Throws InputError.
Plan parse_plan(std::string_view json_text, const std::string& file, const model::Model& model,
                int ranks);
/// What `parse_plan` reads, laid out for people.
std::string to_json(const Plan& plan, const model::Model& model);

std::string_view name_of(Schedule schedule);
std::string_view name_of(WeightPolicy policy);
/// Throws InputError that lists the known names.
Schedule schedule_named(std::string_view name, const std::string& where, const std::string& field);
WeightPolicy policy_named(std::string_view name, const std::string& where,
                          const std::string& field);

}  // namespace dynpipe::plan
