#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/world.hpp"
#include "model/model.hpp"
#include "pipeline/stage_memory.hpp"
#include "probe/cgroup.hpp"

namespace dynpipe::app {

/// Memory of a rank's process before it trains, and what its host has, in bytes, as the OS tells
/// it.
struct RankRoom {
  std::string host;
  std::int64_t program_bytes = 0;    ///< the program and its libraries, resident
  std::int64_t data_bytes = 0;       ///< samples, resident
  std::int64_t peak_bytes = 0;       ///< resident at most so far
  std::int64_t host_bytes = 0;       ///< of the host, all
  std::int64_t available_bytes = 0;  ///< of it, without swapping, at this moment
  std::optional<probe::GroupLimit<std::int64_t>> limit;  ///< of the rank's control group
};

/// Resident memory of the calling process at this moment, in bytes.
std::int64_t resident_bytes();
/// Of the calling process, which had `program_bytes` resident before it read samples.
RankRoom own_room(const std::string& host, std::int64_t program_bytes);
/// Everybody's, by rank, on all. Collective.
std::vector<RankRoom> share_rooms(comm::World& world, const RankRoom& own);

/// A room as text and back, for the way to the other ranks.
std::string pack(const RankRoom& room);
RankRoom unpack_room(const std::string& packed);

/// What a rank's process will hold at most.
struct RankForecast {
  int rank = 0, stage = 0;
  RankRoom room;
  pipeline::StageMemory planned;
  std::int64_t backend_bytes = 0;  ///< compiled primitives and scratch memory of the maths
  std::int64_t initial_bytes = 0;  ///< weights as they are drawn, before training begins
  std::int64_t copy_bytes = 0;     ///< of the stage's state, to be written to checkpoints

  std::int64_t planned_bytes() const { return static_cast<std::int64_t>(planned.total()); }
  /// Largest resident size of the process.
  std::int64_t peak_bytes() const;
};

/// Of every rank of a plan; `rooms` by rank; `checkpoints`: whether the run saves its state. Pure.
std::vector<RankForecast> forecast_memory(const model::Model& model, const plan::Plan& plan,
                                          std::int64_t max_samples,
                                          const nn::OptimizerSettings& optimizer,
                                          const ops::Ops& ops, const std::vector<RankRoom>& rooms,
                                          bool checkpoints);

/// Memory by rank and kind: a table for people.
std::string describe_memory(const std::vector<RankForecast>& ranks);

/// What is wrong with the sums by host and by control group: a line each.
struct MemoryVerdict {
  std::vector<std::string> warnings;  ///< it may be too much
  std::vector<std::string> refusals;  ///< it is, by more than a forecast errs
};
MemoryVerdict judge_memory(const std::vector<RankForecast>& ranks);

}  // namespace dynpipe::app
