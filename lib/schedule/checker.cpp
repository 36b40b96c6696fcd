#include "schedule/checker.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace dynpipe::schedule {
namespace {

using plan::Plan;

/// A directed pair of ranks and what it carries; messages on it match in order.
struct Edge {
  int from, to;
  Payload payload;
  friend auto operator<=>(const Edge&, const Edge&) = default;
};

struct Traffic {
  std::vector<std::int64_t> posted;              ///< microbatches of the receives, in order
  std::map<std::int64_t, std::size_t> position;  ///< of each in `posted`
  std::size_t sent = 0;
};

/// Everything that ranks can see of one another.
struct Shared {
  std::map<Edge, Traffic> edges;
  std::map<std::pair<int, std::int64_t>, int> reductions_started;  ///< by (stage, group)
};

/// Thrown inside this file only: the first thing found wrong.
struct Problem {
  std::string what;
};

/// One rank working through its stream.
class RankRun {
 public:
  RankRun(const Plan& plan, int rank, const Stream& stream, bool training, Segment segment,
          std::int64_t base_version)
      : plan_(plan),
        rank_(rank),
        stage_(plan.stage_of(rank)),
        stream_(stream),
        training_(training),
        segment_(segment),
        base_version_(base_version),
        version_(segment.first_group) {}

  bool finished() const { return position_ == stream_.size(); }

  std::string standing() const {
    return fmt::format("rank {} at '{}'", rank_, to_string(stream_[position_]));
  }

  /// Does what can be done now. Returns false where the rank is blocked at once.
  bool advance(Shared& shared) {
    const std::size_t before = position_;
    while (!finished() && step(stream_[position_], shared)) ++position_;
    return position_ != before;
  }

  void check_complete() const {
    for (std::int64_t k = first_microbatch(); k < end_microbatch(); ++k) {
      if (plan_.owner(stage_, k) != rank_) continue;
      if (!forwarded_.contains(k)) fail("never runs forward {}", k);
      if (training_ && !gradients_made_.contains(k)) fail("never runs backward {}", k);
      if (training_ && !backwarded_.contains(k)) fail("never runs backward_weight {}", k);
      if (stage_ + 1 < plan_.size() && !sent_.contains({Payload::activation, k})) {
        fail("never sends activation {}", k);
      }
      if (training_ && stage_ > 0 && !sent_.contains({Payload::gradient, k})) {
        fail("never sends gradient {}", k);
      }
    }
    if (training_ && version_ != segment_.end_group) {
      fail("never makes update {}", version_);
    }
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw Problem{
        fmt::format("rank {}: {}", rank_, fmt::format(format, std::forward<Args>(args)...))};
  }

  std::int64_t first_microbatch() const { return segment_.first_group * plan_.microbatches; }
  std::int64_t end_microbatch() const { return segment_.end_group * plan_.microbatches; }

  /// True if the instruction is done, false if it blocks.
  bool step(const Instruction& now, Shared& shared) {
    switch (now.op) {
      case Op::receive:
        return receive(now, shared);
      case Op::send:
        return send(now, shared);
      case Op::forward:
        return forward(now, shared) && keep(now);
      case Op::forward_lean:
        return forward(now, shared);
      case Op::recompute:
        return recompute(now);
      case Op::backward:
        return backward_input(now, shared) && backward_weight(now);
      case Op::backward_input:
        return backward_input(now, shared);
      case Op::backward_weight:
        return backward_weight(now);
      case Op::reduce_start:
        return reduce_start(now.index, shared);
      case Op::update_wait:
        return update_wait(now.index, shared);
      case Op::update:
        return update(now.index);
    }
    return false;
  }

  bool receive(const Instruction& now, Shared& shared) const {
    if (plan_.owner(stage_, now.index) != rank_) {
      fail("receives microbatch {}, which is not its own", now.index);
    }
    Traffic& traffic = shared.edges[{now.peer, rank_, now.payload}];
    if (!traffic.position.emplace(now.index, traffic.posted.size()).second) {
      fail("receives {} {} twice", name_of(now.payload), now.index);
    }
    traffic.posted.push_back(now.index);
    return true;
  }

  bool send(const Instruction& now, Shared& shared) {
    const bool made = now.payload == Payload::activation ? forwarded_.contains(now.index)
                                                         : gradients_made_.contains(now.index);
    if (!made) fail("sends {} {} before it is made", name_of(now.payload), now.index);
    Traffic& traffic = shared.edges[{rank_, now.peer, now.payload}];
    if (traffic.sent == traffic.posted.size()) return false;
    const std::int64_t expected = traffic.posted[traffic.sent];
    if (expected != now.index) {
      fail("sends {} {} to rank {}, which expects {}", name_of(now.payload), now.index, now.peer,
           expected);
    }
    ++traffic.sent;
    if (!sent_.insert({now.payload, now.index}).second) {
      fail("sends {} {} twice", name_of(now.payload), now.index);
    }
    return true;
  }

  /// Whether the message is there. Fails where its receive was never posted.
  bool arrived(Payload payload, std::int64_t k, int from, Shared& shared) const {
    const Traffic& traffic = shared.edges[{from, rank_, payload}];
    const auto found = traffic.position.find(k);
    if (found == traffic.position.end()) {
      fail("uses {} {} without a receive from rank {}", name_of(payload), k, from);
    }
    return found->second < traffic.sent;
  }

  void check_version(const Instruction& now) const {
    const std::int64_t group = now.index / plan_.microbatches;
    const std::int64_t delay = plan_.delay(stage_);
    const std::int64_t needed = std::max(base_version_, group - delay);
    if (needed > version_) {
      fail("{} needs version {}, but only {} updates are made", to_string(now), needed, version_);
    }
    if (needed < version_ - delay) {
      fail("{} needs version {}, which update {} has overwritten", to_string(now), needed,
           version_ - 1);
    }
  }

  bool forward(const Instruction& now, Shared& shared) {
    const std::int64_t k = now.index;
    if (k < first_microbatch() || k >= end_microbatch() || plan_.owner(stage_, k) != rank_) {
      fail("runs {}, which is not its own", to_string(now));
    }
    if (stage_ > 0 && !arrived(Payload::activation, k, plan_.owner(stage_ - 1, k), shared)) {
      return false;
    }
    if (training_) check_version(now);
    if (!forwarded_.insert(k).second) fail("runs {} twice", to_string(now));
    return true;
  }

  bool recompute(const Instruction& now) {
    if (!forwarded_.contains(now.index)) fail("runs {} before its forward", to_string(now));
    check_version(now);
    return keep(now);
  }

  bool keep(const Instruction& now) {
    if (!kept_.insert(now.index).second) fail("runs {} where its work is kept", to_string(now));
    return true;
  }

  /// Of a whole backward too.
  bool backward_input(const Instruction& now, Shared& shared) {
    const std::int64_t k = now.index;
    if (!forwarded_.contains(k)) fail("runs {} before its forward", to_string(now));
    if (!kept_.contains(k)) fail("runs {} without a recompute", to_string(now));
    if (stage_ + 1 < plan_.size() &&
        !arrived(Payload::gradient, k, plan_.owner(stage_ + 1, k), shared)) {
      return false;
    }
    check_version(now);
    if (!gradients_made_.insert(k).second) fail("runs {} twice", to_string(now));
    check_order(now, last_input_part_);
    return true;
  }

  bool backward_weight(const Instruction& now) {
    const std::int64_t k = now.index;
    if (!gradients_made_.contains(k)) fail("runs {} before its backward_input", to_string(now));
    if (!backwarded_.insert(k).second) fail("runs {} twice", to_string(now));
    if (k / plan_.microbatches < reductions_) {
      fail("runs {} after its group's reduction", to_string(now));
    }
    check_order(now, last_weight_part_);
    return true;
  }

  /// Gradients add up in the order of microbatches, whatever the schedule.
  void check_order(const Instruction& now, std::int64_t& last) const {
    if (now.index < last) fail("runs {} after that of {}", to_string(now), last);
    last = now.index;
  }

  bool reduce_start(std::int64_t g, Shared& shared) {
    if (g != std::max(reductions_, segment_.first_group))
      fail("starts reduction {} out of order", g);
    for (std::int64_t k = g * plan_.microbatches; k < (g + 1) * plan_.microbatches; ++k) {
      if (plan_.owner(stage_, k) == rank_ && !backwarded_.contains(k)) {
        fail("starts reduction {} before backward {}", g, k);
      }
    }
    reductions_ = g + 1;
    ++shared.reductions_started[{stage_, g}];
    return true;
  }

  bool update_wait(std::int64_t g, Shared& shared) {
    if (g >= reductions_) fail("waits for reduction {}, which it has not started", g);
    if (awaited_ == g) fail("waits for reduction {} twice", g);
    const int replicas = plan_.stages[static_cast<std::size_t>(stage_)].replicas();
    if (shared.reductions_started[{stage_, g}] < replicas) return false;
    awaited_ = g;
    return true;
  }

  bool update(std::int64_t g) {
    if (g != version_) fail("makes update {} after {} updates", g, version_);
    if (awaited_ != g) fail("makes update {} without waiting for its reduction", g);
    version_ = g + 1;
    return true;
  }

  const Plan& plan_;
  int rank_, stage_;
  const Stream& stream_;
  bool training_;
  Segment segment_;
  std::int64_t base_version_;
  std::int64_t version_;  ///< the newest
  std::int64_t reductions_ = -1;
  std::int64_t awaited_ = -1;
  std::size_t position_ = 0;
  std::int64_t last_input_part_ = -1, last_weight_part_ = -1;
  /// `kept_`: what the backward needs is there. `gradients_made_`: of inputs; `backwarded_`: of
  /// weights too.
  std::set<std::int64_t> forwarded_, kept_, gradients_made_, backwarded_;
  std::set<std::pair<Payload, std::int64_t>> sent_;
};

void run_all(std::vector<RankRun>& runs, Shared& shared) {
  for (bool moved = true; moved;) {
    moved = false;
    for (RankRun& run : runs) moved |= run.advance(shared);
  }
  std::vector<std::string> blocked;
  for (const RankRun& run : runs) {
    if (!run.finished()) blocked.push_back(run.standing());
  }
  if (!blocked.empty()) {
    throw Problem{fmt::format("deadlock: {}", fmt::join(blocked, ", "))};
  }
  for (const auto& [edge, traffic] : shared.edges) {
    if (traffic.sent < traffic.posted.size()) {
      throw Problem{fmt::format("rank {} never sends {} {}, which rank {} receives", edge.from,
                                name_of(edge.payload), traffic.posted[traffic.sent], edge.to)};
    }
  }
  for (const RankRun& run : runs) run.check_complete();
}

std::optional<std::string> find_problem(const Plan& plan, Segment segment,
                                        std::int64_t base_version, bool training,
                                        const std::vector<Stream>& streams) {
  if (static_cast<int>(streams.size()) != plan.ranks()) return "one stream a rank is needed";
  std::vector<RankRun> runs;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    runs.emplace_back(plan, rank, streams[static_cast<std::size_t>(rank)], training, segment,
                      base_version);
  }
  try {
    Shared shared;
    run_all(runs, shared);
  } catch (const Problem& problem) {
    return problem.what;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> find_training_problem(const Plan& plan, Segment segment,
                                                 std::int64_t base_version,
                                                 const std::vector<Stream>& streams) {
  return find_problem(plan, segment, base_version, true, streams);
}

std::optional<std::string> find_evaluation_problem(const Plan& plan, std::int64_t count,
                                                   const std::vector<Stream>& streams) {
  return find_problem(plan, {0, count / plan.microbatches}, 0, false, streams);
}

}  // namespace dynpipe::schedule
