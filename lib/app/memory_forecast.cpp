#include "app/memory_forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "nn/parameters.hpp"
#include "probe/placement_warnings.hpp"
#include "probe/usage.hpp"

namespace dynpipe::app {
namespace {

using nlohmann::json;

/// Measured on the models of this repository: compiled primitives, their scratch memory, and what
/// MPI adds once messages flow.
constexpr std::int64_t k_backend_bytes = 3'000'000;

/// Forecasts have been within this part of what was measured.
constexpr double k_forecast_error = 0.15;

std::string megabytes(double bytes) {
  return fmt::format("{:.0f}", bytes / 1e6);
}

std::string size_text(std::int64_t bytes) {
  return bytes >= 10'000'000'000 ? fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9)
                                 : fmt::format("{:.0f} MB", static_cast<double>(bytes) / 1e6);
}

/// Ranks that share some memory, and what they need of it at their peaks.
struct Sharers {
  std::vector<int> ranks;
  std::int64_t need_bytes = 0;
  std::int64_t resident_bytes = 0;  ///< of it, there already
  RankRoom room;                    ///< of one of them
};

void add(Sharers& sharers, const RankForecast& rank) {
  sharers.ranks.push_back(rank.rank);
  sharers.need_bytes += rank.peak_bytes();
  sharers.resident_bytes += rank.room.program_bytes + rank.room.data_bytes;
  sharers.room = rank.room;
}

bool surely_beyond(std::int64_t need_bytes, std::int64_t room_bytes) {
  return static_cast<double>(need_bytes) * (1 - k_forecast_error) > static_cast<double>(room_bytes);
}

std::string shortage(const Sharers& sharers, std::int64_t room_bytes, const std::string& place) {
  return fmt::format("{} need{} about {} of memory, but {} has {}",
                     probe::name_ranks(sharers.ranks), sharers.ranks.size() == 1 ? "s" : "",
                     size_text(sharers.need_bytes), place, size_text(room_bytes));
}

void judge_host(const Sharers& sharers, MemoryVerdict& verdict) {
  const RankRoom& room = sharers.room;
  // What the ranks hold already is not available any more, but theirs.
  const std::int64_t available = room.available_bytes + sharers.resident_bytes;
  if (room.host_bytes > 0 && surely_beyond(sharers.need_bytes, room.host_bytes)) {
    verdict.refusals.push_back(
        shortage(sharers, room.host_bytes, fmt::format("host {}", room.host)));
  } else if (room.host_bytes > 0 && sharers.need_bytes > available) {
    verdict.warnings.push_back(shortage(sharers, available, fmt::format("host {}", room.host)) +
                               " left");
  }
}

void judge_group(const Sharers& sharers, MemoryVerdict& verdict) {
  const auto& limit = *sharers.room.limit;
  if (sharers.need_bytes <= limit.value) return;
  const bool surely = surely_beyond(sharers.need_bytes, limit.value);
  (surely ? verdict.refusals : verdict.warnings)
      .push_back(shortage(
          sharers, limit.value,
          fmt::format("the control group {} on host {}", limit.folder, sharers.room.host)));
}

}  // namespace

std::int64_t resident_bytes() {
  return probe::parse_status(probe::read_text("/proc/self/status").value_or("")).resident_bytes;
}

RankRoom own_room(const std::string& host, std::int64_t program_bytes) {
  const auto process = probe::parse_status(probe::read_text("/proc/self/status").value_or(""));
  const auto memory = probe::parse_meminfo(probe::read_text("/proc/meminfo").value_or(""))
                          .value_or(probe::HostMemory{});
  return {host,
          program_bytes,
          std::max<std::int64_t>(0, process.resident_bytes - program_bytes),
          process.peak_bytes,
          memory.total_bytes,
          memory.available_bytes,
          probe::group_limits(probe::read_text).memory_bytes};
}

std::string pack(const RankRoom& room) {
  json text = {room.host,       room.program_bytes,   room.data_bytes, room.peak_bytes,
               room.host_bytes, room.available_bytes, nullptr,         nullptr};
  if (room.limit) {
    text[6] = room.limit->value;
    text[7] = room.limit->folder;
  }
  return text.dump();
}

RankRoom unpack_room(const std::string& packed) {
  const json text = json::parse(packed);
  RankRoom room{text[0], text[1], text[2], text[3], text[4], text[5], {}};
  if (!text[6].is_null()) room.limit = {text[6], text[7]};
  return room;
}

std::vector<RankRoom> share_rooms(comm::World& world, const RankRoom& own) {
  const json all = json::parse(world.broadcast(json(world.gather(pack(own))).dump()));
  std::vector<RankRoom> rooms;
  for (const json& text : all) rooms.push_back(unpack_room(text));
  return rooms;
}

std::int64_t RankForecast::peak_bytes() const {
  const std::int64_t before = room.program_bytes + room.data_bytes;
  const auto loading =
      static_cast<std::int64_t>(planned.weights.bytes + planned.optimizer_states.total()) +
      initial_bytes;
  return std::max(room.peak_bytes,
                  before + std::max(loading, planned_bytes() + copy_bytes + backend_bytes));
}

std::vector<RankForecast> forecast_memory(const model::Model& model, const plan::Plan& plan,
                                          std::int64_t max_samples,
                                          const nn::OptimizerSettings& optimizer,
                                          const ops::Ops& ops, const std::vector<RankRoom>& rooms,
                                          bool checkpoints) {
  std::vector<RankForecast> ranks;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    RankForecast forecast;
    forecast.rank = rank;
    forecast.stage = plan.stage_of(rank);
    forecast.room = rooms[static_cast<std::size_t>(rank)];
    forecast.planned = pipeline::stage_memory(model, plan, rank, max_samples, optimizer, ops);
    forecast.backend_bytes = k_backend_bytes;
    const auto& stage = plan.stages[static_cast<std::size_t>(forecast.stage)];
    for (const model::Layer& layer : plan::layers_of(model, stage)) {
      forecast.initial_bytes +=
          layer.facts.parameter_elements() * static_cast<std::int64_t>(sizeof(double));
    }
    if (checkpoints && stage.ranks.front() == rank) {
      const pipeline::StageMemory& planned = forecast.planned;
      forecast.copy_bytes = static_cast<std::int64_t>(
          planned.weights.total() + planned.optimizer_states.total() + planned.running_statistics);
    }
    ranks.push_back(std::move(forecast));
  }
  return ranks;
}

std::string describe_memory(const std::vector<RankForecast>& ranks) {
  std::string text =
      "memory of each rank, MB           of it\n"
      "stage  rank  host               sum  weights  older  optimizer  gradients  activations  "
      "messages  checkpoint  data  program\n";
  for (const RankForecast& rank : ranks) {
    const pipeline::StageMemory& planned = rank.planned;
    const auto bytes = [](const pipeline::Buffers& buffers) {
      return static_cast<double>(buffers.total());
    };
    const auto older = bytes(planned.weights) - static_cast<double>(planned.weights.bytes);
    text += fmt::format(
        "{:>5}  {:>4}  {:<15}  {:>5}  {:>7}  {:>5}  {:>9}  {:>9}  {:>11}  {:>8}  {:>10}  {:>4}  "
        "{:>7}\n",
        rank.stage, rank.rank, rank.room.host.substr(0, 15),
        megabytes(static_cast<double>(rank.peak_bytes())),
        megabytes(static_cast<double>(planned.weights.bytes + planned.relaid_weights +
                                      planned.running_statistics)),
        megabytes(older), megabytes(bytes(planned.optimizer_states)),
        megabytes(bytes(planned.gradient_sums) + bytes(planned.replica_sums)),
        megabytes(bytes(planned.activations) + bytes(planned.inputs) +
                  static_cast<double>(planned.scratch)),
        megabytes(bytes(planned.outgoing_activations) + bytes(planned.incoming_gradients) +
                  bytes(planned.outgoing_gradients) + bytes(planned.deferred_gradients) +
                  bytes(planned.loss_totals) + static_cast<double>(planned.loss_messages)),
        megabytes(static_cast<double>(rank.copy_bytes)),
        megabytes(static_cast<double>(rank.room.data_bytes)),
        megabytes(static_cast<double>(rank.room.program_bytes + rank.backend_bytes)));
  }
  return text;
}

MemoryVerdict judge_memory(const std::vector<RankForecast>& ranks) {
  std::map<std::string, Sharers> hosts;
  std::map<std::pair<std::string, std::string>, Sharers> groups;
  for (const RankForecast& rank : ranks) {
    add(hosts[rank.room.host], rank);
    if (rank.room.limit) add(groups[{rank.room.host, rank.room.limit->folder}], rank);
  }
  MemoryVerdict verdict;
  for (const auto& [host, sharers] : hosts) judge_host(sharers, verdict);
  for (const auto& [place, sharers] : groups) judge_group(sharers, verdict);
  return verdict;
}

}  // namespace dynpipe::app
