#include "app/staleness.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "app/text_file.hpp"
#include "base/errors.hpp"
#include "io/trace.hpp"
#include "model/object_reader.hpp"
#include "planner/kappa.hpp"

namespace dynpipe::app {

using nlohmann::json;
using nlohmann::ordered_json;
using pipeline::LagSample;

std::string pack(const std::vector<LagSample>& samples) {
  json list = json::array();
  for (const LagSample& s : samples) list.push_back({s.group, s.square, s.products, s.squares});
  return list.dump();
}

std::vector<LagSample> unpack_lag_samples(const std::string& text) {
  std::vector<LagSample> samples;
  for (const json& s : json::parse(text)) samples.push_back({s[0], s[1], s[2], s[3]});
  return samples;
}

Staleness find_staleness(const std::vector<std::string>& packed) {
  std::vector<std::vector<LagSample>> stages;
  for (const std::string& text : packed) {
    std::vector<LagSample> samples = unpack_lag_samples(text);
    if (!samples.empty()) stages.push_back(std::move(samples));
  }
  Staleness staleness;
  if (stages.empty()) return staleness;
  staleness.comparisons = static_cast<std::int64_t>(stages.front().size());
  staleness.cosines = pipeline::lag_cosines(stages);
  staleness.kappa = planner::fit_kappa(staleness.cosines).kappa;
  return staleness;
}

ordered_json staleness_json(const Staleness& staleness) {
  ordered_json cosines = ordered_json::object();
  for (std::size_t i = 0; i < staleness.cosines.size(); ++i) {
    cosines[fmt::format("{}", i + 1)] = staleness.cosines[i];
  }
  return {{"gradient_cosines", cosines},
          {"gradient_comparisons", staleness.comparisons},
          {"kappa", staleness.kappa}};
}

double kappa_of_run(const std::string& file) {
  if (io::File::is_hdf5(file)) return io::kappa_of_trace(file);
  return kappa_of_summary(read_text_file(file), file);
}

double kappa_of_summary(std::string_view json_text, const std::string& file) {
  const json summary = model::parse_document(json_text, file);
  model::ObjectReader reader(summary, file, "");
  if (reader.find("kappa") == nullptr) {
    reader.refuse("kappa", "is missing: train with --measure-kappa N to have it in the summary");
  }
  return reader.required_number("kappa", 0, std::numeric_limits<double>::max());
}

}  // namespace dynpipe::app
