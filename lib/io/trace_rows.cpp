#include "io/trace_rows.hpp"

namespace dynpipe::io {

template <>
std::vector<TableColumn> columns_of<StartRow>() {
  using Row = StartRow;
  return {column("update", &Row::update), column("time_s", &Row::time_s),
          column("unix_s", &Row::unix_s)};
}

template <>
std::vector<TableColumn> columns_of<PlanRow>() {
  using Row = PlanRow;
  return {column("update", &Row::update), column("time_s", &Row::time_s),
          column("plan", &Row::plan)};
}

template <>
std::vector<TableColumn> columns_of<UpdateRow>() {
  using Row = UpdateRow;
  return {column("update", &Row::update),
          column("epoch", &Row::epoch),
          column("samples", &Row::samples),
          column("time_s", &Row::time_s),
          column("loss", &Row::loss),
          column("accuracy", &Row::accuracy),
          column("learning_rate", &Row::learning_rate)};
}

template <>
std::vector<TableColumn> columns_of<StageStatsRow>() {
  using Row = StageStatsRow;
  return {column("update", &Row::update),
          column("rank", &Row::rank),
          column("stage", &Row::stage),
          column("time_s", &Row::time_s),
          column("total_s", &Row::total_s),
          column("forward_s", &Row::forward_s),
          column("backward_s", &Row::backward_s),
          column("update_s", &Row::update_s),
          column("wait_activation_s", &Row::wait_activation_s),
          column("wait_gradient_s", &Row::wait_gradient_s),
          column("wait_sum_s", &Row::wait_sum_s),
          column("wait_send_s", &Row::wait_send_s),
          column("arrivals", &Row::arrivals),
          column("arrivals_in_time", &Row::arrivals_in_time),
          column("events_dropped", &Row::events_dropped)};
}

template <>
std::vector<TableColumn> columns_of<DecisionRow>() {
  using Row = DecisionRow;
  return {column("update", &Row::update),
          column("time_s", &Row::time_s),
          column("action", &Row::action),
          column("reason", &Row::reason),
          column("from_plan", &Row::from_plan),
          column("to_plan", &Row::to_plan),
          column("predicted_gain", &Row::predicted_gain),
          column("realised_gain", &Row::realised_gain),
          column("predicted_cost_s", &Row::predicted_cost_s),
          column("stall_s", &Row::stall_s),
          column("bytes", &Row::bytes)};
}

template <>
std::vector<TableColumn> columns_of<EvaluationRow>() {
  using Row = EvaluationRow;
  return {column("update", &Row::update),
          column("epoch", &Row::epoch),
          column("samples", &Row::samples),
          column("time_s", &Row::time_s),
          column("epoch_s", &Row::epoch_s),
          column("train_s", &Row::train_s),
          column("train_loss", &Row::train_loss),
          column("train_accuracy", &Row::train_accuracy),
          column("test_loss", &Row::test_loss),
          column("test_accuracy", &Row::test_accuracy),
          column("best", &Row::best)};
}

template <>
std::vector<TableColumn> columns_of<EventRow>() {
  using Row = EventRow;
  return {column("rank", &Row::rank),   column("stage", &Row::stage),
          column("kind", &Row::kind),   column("update", &Row::update),
          column("index", &Row::index), column("start_s", &Row::start_s),
          column("end_s", &Row::end_s)};
}

template <>
std::vector<TableColumn> columns_of<LayerRow>() {
  using Row = LayerRow;
  return {column("name", &Row::name), column("type", &Row::type),
          column("forward_flops", &Row::forward_flops), column("parameters", &Row::parameters),
          column("output_elements", &Row::output_elements)};
}

template <>
std::vector<TableColumn> columns_of<RankRow>() {
  using Row = RankRow;
  return {column("rank", &Row::rank), column("host", &Row::host), column("threads", &Row::threads),
          column("clock_offset_s", &Row::clock_offset_s),
          column("clock_error_s", &Row::clock_error_s)};
}

template <>
std::vector<TableColumn> columns_of<GradientRow>() {
  using Row = GradientRow;
  return {column("update", &Row::update), column("stage", &Row::stage),
          column("lag", &Row::lag),       column("product", &Row::product),
          column("square", &Row::square), column("earlier_square", &Row::earlier_square)};
}

}  // namespace dynpipe::io
