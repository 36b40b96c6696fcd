#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/trace.hpp"
#include "model/model.hpp"
#include "plan/plan.hpp"

namespace dynpipe::app {

/// A trace with its model and its plans read, for those who look at it afterwards.
struct TraceRun {
  io::Trace trace;
  model::Model model;
  plan::Plan plan;  ///< the last one

  bool is_virtual() const { return trace.clock == "virtual"; }
  int ranks() const { return static_cast<int>(trace.ranks.size()); }
};

/// Throws InputError naming file and object.
TraceRun read_trace_run(const std::string& file);

/// Where a stage's time went, seconds summed over its ranks.
struct StageAccount {
  int stage = 0, ranks = 0;
  double total_s = 0, forward_s = 0, backward_s = 0, update_s = 0;
  double wait_activation_s = 0, wait_gradient_s = 0, wait_sum_s = 0, wait_send_s = 0;
  /// Of the waits for activations and gradients: the time in which the message had been made and
  /// was on its way. Empty without events.
  std::optional<double> transfer_s;
  std::int64_t updates = 0;  ///< that the rows are about, by the busiest rank

  double busy_s() const { return forward_s + backward_s + update_s; }
  double waiting_s() const {
    return wait_activation_s + wait_gradient_s + wait_sum_s + wait_send_s;
  }
  double rest_s() const { return total_s - busy_s() - waiting_s(); }
};

/// By stage.
std::vector<StageAccount> account_of(const io::Trace& trace);
/// Seconds of training by how many ranks compute at once; empty without events.
std::vector<double> seconds_by_computing_ranks(const io::Trace& trace);
/// Seconds from one update's news to the next, within an epoch.
std::vector<double> update_intervals_s(const io::Trace& trace);
/// Updates [first, last] of one epoch, in which training was not interrupted.
std::vector<std::pair<std::int64_t, std::int64_t>> epochs_of(const io::Trace& trace);

/// When messages were made: the ends of the forwards and backwards that made them.
class MessagesMade {
 public:
  explicit MessagesMade(const io::Trace& trace);
  /// When what a wait waited for was there to be sent; empty where that is not known.
  std::optional<double> made_s(const io::EventRow& wait) const;

 private:
  static std::uint64_t key(int stage, bool activation, std::int64_t microbatch);
  std::unordered_map<std::uint64_t, double> ends_s_;
};

}  // namespace dynpipe::app
