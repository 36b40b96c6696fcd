#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/hdf5_table.hpp"

/// The rows of a trace file: one struct a table, one member a column. README.md of this folder says
/// what they mean; times are seconds since training began.
namespace dynpipe::io {

inline constexpr std::string_view k_trace_format = "dynpipe trace";
inline constexpr std::int64_t k_trace_version = 1;

struct StartRow {
  static constexpr const char* k_path = "/starts";
  std::int64_t update = 0;
  double time_s = 0, unix_s = 0;
};

struct PlanRow {
  static constexpr const char* k_path = "/plans";
  std::int64_t update = 0;
  double time_s = 0;
  std::string plan;
};

struct UpdateRow {
  static constexpr const char* k_path = "/updates";
  std::int64_t update = 0, epoch = 0, samples = 0;
  double time_s = 0, loss = 0, accuracy = 0, learning_rate = 0;
};

struct StageStatsRow {
  static constexpr const char* k_path = "/stage_stats";
  std::int64_t update = 0;
  std::int32_t rank = 0, stage = 0;
  double time_s = 0, total_s = 0;
  double forward_s = 0, backward_s = 0, update_s = 0;
  double wait_activation_s = 0, wait_gradient_s = 0, wait_sum_s = 0, wait_send_s = 0;
  std::int64_t arrivals = 0, arrivals_in_time = 0, events_dropped = 0;
};

struct DecisionRow {
  static constexpr const char* k_path = "/decisions";
  std::int64_t update = 0;
  double time_s = 0;
  std::string action, reason;
  std::int32_t from_plan = 0, to_plan = 0;
  double predicted_gain = 0, realised_gain = 0, predicted_cost_s = 0, stall_s = 0;
  std::int64_t bytes = 0;
};

struct EvaluationRow {
  static constexpr const char* k_path = "/evals";
  std::int64_t update = 0, epoch = 0, samples = 0;
  double time_s = 0, epoch_s = 0, train_s = 0;
  double train_loss = 0, train_accuracy = 0, test_loss = 0, test_accuracy = 0;
  std::uint8_t best = 0;
};

/// What an event tells of; the order is that of `k_event_kinds`.
enum class EventKind : std::uint8_t {
  forward,
  recompute,
  backward,
  backward_input,
  backward_weight,
  update,
  wait_activation,
  wait_gradient,
  wait_sum,
  wait_send,
};
inline constexpr std::array<std::string_view, 10> k_event_kinds = {
    "forward", "recompute",       "backward",      "backward_input", "backward_weight",
    "update",  "wait_activation", "wait_gradient", "wait_sum",       "wait_send"};

struct EventRow {
  static constexpr const char* k_path = "/events";
  std::int32_t rank = 0, stage = 0;
  std::uint8_t kind = 0;
  std::int64_t update = 0, index = 0;
  double start_s = 0, end_s = 0;
};

struct LayerRow {
  static constexpr const char* k_path = "/meta/layers";
  std::string name, type;
  std::int64_t forward_flops = 0, parameters = 0, output_elements = 0;
};

struct RankRow {
  static constexpr const char* k_path = "/meta/ranks";
  std::int32_t rank = 0;
  std::string host;
  std::int32_t threads = 0;
  double clock_offset_s = 0, clock_error_s = 0;
};

struct GradientRow {
  static constexpr const char* k_path = "/kappa/samples";
  std::int64_t update = 0;
  std::int32_t stage = 0, lag = 0;
  double product = 0, square = 0, earlier_square = 0;
};

/// Columns of a table, in their order in the file.
template <typename Row>
std::vector<TableColumn> columns_of();
template <>
std::vector<TableColumn> columns_of<StartRow>();
template <>
std::vector<TableColumn> columns_of<PlanRow>();
template <>
std::vector<TableColumn> columns_of<UpdateRow>();
template <>
std::vector<TableColumn> columns_of<StageStatsRow>();
template <>
std::vector<TableColumn> columns_of<DecisionRow>();
template <>
std::vector<TableColumn> columns_of<EvaluationRow>();
template <>
std::vector<TableColumn> columns_of<EventRow>();
template <>
std::vector<TableColumn> columns_of<LayerRow>();
template <>
std::vector<TableColumn> columns_of<RankRow>();
template <>
std::vector<TableColumn> columns_of<GradientRow>();

}  // namespace dynpipe::io
