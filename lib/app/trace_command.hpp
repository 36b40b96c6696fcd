#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/progress_text.hpp"
#include "app/trace_run.hpp"

namespace dynpipe::app {

/// `dynpipe trace summary|export|compare|whatif`: what the words after `trace` ask for, as text for
/// people. Needs no MPI. Throws InputError naming file or option.
std::string trace_command(const std::vector<std::string>& words);

/// Where each stage's time went, which one the others wait for, speed over time, what ran at once.
std::string describe_trace(const TraceRun& run, Charset charset);

/// Two runs beside one another, with differences in percent of the first.
std::string compare_traces(const TraceRun& first, const TraceRun& second);

/// A trace's events (without them: nothing but names) as trace events for Perfetto.
std::string perfetto_text(const TraceRun& run);
/// Every table as FOLDER/NAME.csv; returns the files' names.
std::vector<std::string> write_csv(const io::Trace& trace, const std::string& folder);

/// What is asked of a run that was made: nothing but its own plan, or one thing changed.
struct WhatIf {
  std::string plan;                ///< file; empty: the run's own
  std::optional<int> undisturbed;  ///< stage
  std::string profile;             ///< file, that tells layers of a stage apart; empty: FLOPs
};
/// What an update would take by the simulator, from the run's own step times.
struct WhatIfResult {
  double measured_s = 0;     ///< an update, as it was
  double replayed_s = 0;     ///< under the run's own plan, undisturbed by nothing
  double predicted_s = 0;    ///< as asked
  std::int64_t updates = 0;  ///< that were replayed
  std::string text;          ///< for people
};
WhatIfResult what_if(const TraceRun& run, const WhatIf& asked);

}  // namespace dynpipe::app
