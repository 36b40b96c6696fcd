#include "app/forest_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/errors.hpp"
#include "io/hdf5.hpp"

namespace dynpipe::app {
namespace {

using base::InputError;

constexpr const char* k_format = "dynpipe interference data";
constexpr double k_version = 1;

/// The columns of a table: `visit` is told the name and the field of each.
template <typename Visit>
void visit_columns(Measurement& m, const Visit& visit) {
  visit("window", m.window);
  visit("disturbance", m.disturbance);
  visit("stage", m.stage);
  visit("groups", m.groups);
  visit("arithmetic_s", m.seconds.arithmetic);
  visit("weights_s", m.seconds.weights);
  visit("activations_s", m.seconds.activations);
  visit("error", m.error);
  probe::ActivitySample& a = m.activity;
  visit("interval_s", a.interval_s);
  visit("cpu_s", a.cpu_s);
  visit("run_wait_s", a.run_wait_s);
  visit("voluntary_switches", a.voluntary_switches);
  visit("involuntary_switches", a.involuntary_switches);
  visit("process_cpu_s", a.process_cpu_s);
  visit("minor_faults", a.minor_faults);
  visit("major_faults", a.major_faults);
  visit("throttled_s", a.throttled_s);
  visit("core_busy_s", a.core_busy_s);
  visit("core_stolen_s", a.core_stolen_s);
  visit("pressure_cpu_s", a.pressure_cpu_s);
  visit("pressure_memory_s", a.pressure_memory_s);
  visit("pressure_io_s", a.pressure_io_s);
}

template <typename Visit>
void visit_columns(StageDescription& stage, const Visit& visit) {
  visit("flops", stage.work.flops);
  visit("weight_bytes", stage.work.weight_bytes);
  visit("activation_bytes", stage.work.activation_bytes);
  visit("parameter_bytes", stage.parameter_bytes);
  visit("kept_bytes", stage.activation_bytes);
}

template <typename Row>
std::vector<std::string> column_names() {
  std::vector<std::string> names;
  Row row;
  visit_columns(row, [&](const char* name, double&) { names.emplace_back(name); });
  return names;
}

/// A table [rows, columns] with its columns' names beside it.
template <typename Row>
void write_table(io::File& file, const std::string& path, std::vector<Row> rows) {
  const std::vector<std::string> names = column_names<Row>();
  std::vector<double> values;
  for (Row& row : rows) {
    visit_columns(row, [&](const char*, double& value) { values.push_back(value); });
  }
  const std::uint64_t length = rows.size(), width = names.size();
  io::Dataset table =
      file.create_dataset(path, {.element = io::Element::float64,
                                 .shape = {length, width},
                                 .chunk = {std::max<std::uint64_t>(1, length), width},
                                 .deflate = io::library_facts().deflates ? 4 : 0});
  table.write_all<double>(values);
  file.write_texts(path + "_columns", names);
}

template <typename Row>
std::vector<Row> read_table(const io::File& file, const std::string& path) {
  const std::vector<std::string> names = column_names<Row>();
  if (file.dataset(path + "_columns").read_texts() != names) {
    throw InputError(file.name(), path + "_columns", "are not those that this program knows");
  }
  const io::Dataset table = file.dataset(path);
  if (table.shape().size() != 2 || table.shape()[1] != names.size()) {
    throw InputError(file.name(), path, fmt::format("must have {} columns", names.size()));
  }
  const std::vector<double> values = table.read_all<double>();
  std::vector<Row> rows(table.shape()[0]);
  auto value = values.begin();
  for (Row& row : rows) {
    visit_columns(row, [&](const char*, double& field) { field = *value++; });
  }
  return rows;
}

double number_attribute(const io::File& file, const std::string& name) {
  const auto values = file.attribute("/", name);
  if (!values || values->size() != 1) throw InputError(file.name(), name, "is missing");
  return values->front();
}

void check(const ForestData& data) {
  for (std::size_t i = 0; i < data.measurements.size(); ++i) {
    const Measurement& m = data.measurements[i];
    const bool known = m.stage >= 0 && m.stage < static_cast<double>(data.stages.size()) &&
                       m.disturbance >= 0 &&
                       m.disturbance < static_cast<double>(data.disturbances.size());
    if (!known || !(m.seconds.total() > 0)) {
      throw InputError(data.name, fmt::format("/measurements[{}]", i),
                       known ? "has no time" : "has a stage or disturbance that is not there");
    }
  }
}

}  // namespace

ForestData read_forest_data(const std::string& file) {
  const io::File opened = io::File::open(file);
  const auto format = opened.text_attribute("/", "format");
  if (!format || *format != std::vector<std::string>{k_format}) {
    throw InputError(file, "format", "this is no data set that `dynpipe forest collect` made");
  }
  if (const double version = number_attribute(opened, "version"); version != k_version) {
    throw InputError(file, "version", fmt::format("is {}, {} is read here", version, k_version));
  }
  ForestData data;
  data.name = file;
  const auto machine = opened.text_attribute("/", "machine");
  if (machine && !machine->empty()) data.machine = machine->front();
  data.slice_s = number_attribute(opened, "slice_s");
  data.collected_s = number_attribute(opened, "collected_s");
  data.disturbances = opened.dataset("/disturbances").read_texts();
  data.stages = read_table<StageDescription>(opened, "/stages");
  const auto names = opened.dataset("/stage_names").read_texts();
  const auto mixes = opened.dataset("/stage_mixes").read_texts();
  if (names.size() != data.stages.size() || mixes.size() != data.stages.size()) {
    throw InputError(file, "/stage_names", "are not as many as /stages");
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    data.stages[i].name = names[i];
    data.stages[i].mix = mixes[i];
  }
  data.measurements = read_table<Measurement>(opened, "/measurements");
  check(data);
  return data;
}

void write_forest_data(const ForestData& data, const std::string& file) {
  const std::string part = file + ".part";
  io::File written = io::File::create(part);
  written.set_attribute("/", "format", k_format);
  const auto number = [&](const char* attribute, double value) {
    written.set_attribute("/", attribute, std::span<const double>(&value, 1));
  };
  number("version", k_version);
  number("slice_s", data.slice_s);
  number("collected_s", data.collected_s);
  written.set_attribute("/", "machine", data.machine);
  written.write_texts("/disturbances", data.disturbances);
  std::vector<std::string> names, mixes;
  for (const StageDescription& stage : data.stages) {
    names.push_back(stage.name);
    mixes.push_back(stage.mix);
  }
  written.write_texts("/stage_names", names);
  written.write_texts("/stage_mixes", mixes);
  write_table(written, "/stages", data.stages);
  write_table(written, "/measurements", data.measurements);
  written.close();
  std::error_code failure;
  std::filesystem::rename(part, file, failure);
  if (failure) throw base::RunError(fmt::format("{}: {}", file, failure.message()));
}

}  // namespace dynpipe::app
