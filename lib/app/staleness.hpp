#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/gradient_lag.hpp"

namespace dynpipe::app {

/// What a run found out about its own delay.
struct Staleness {
  std::int64_t comparisons = 0;
  std::vector<double> cosines;  ///< of whole gradients, by lag from 1
  double kappa = 0;             ///< see planner::fit_kappa
};

/// A stage's comparisons as text, for the way to rank 0.
std::string pack(const std::vector<pipeline::LagSample>& samples);
std::vector<pipeline::LagSample> unpack_lag_samples(const std::string& text);
/// Of the texts of all ranks, of which one of each stage has comparisons.
Staleness find_staleness(const std::vector<std::string>& packed);

/// The summary's "gradient_cosines", "gradient_comparisons" and "kappa".
nlohmann::ordered_json staleness_json(const Staleness& staleness);
/// The "kappa" of a run's summary. Throws InputError naming `file`, also where the run did not
/// measure it.
double kappa_of_summary(std::string_view json_text, const std::string& file);
/// The same of a run's summary or its trace, whichever `file` is.
double kappa_of_run(const std::string& file);

}  // namespace dynpipe::app
