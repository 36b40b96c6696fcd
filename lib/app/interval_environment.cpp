#include "app/interval_environment.hpp"

#include <algorithm>

namespace dynpipe::app {

void add_activity(interference::Environment& environment, const probe::ActivitySample& activity) {
  const double cpu_s = activity.cpu_s;
  if (!(cpu_s > 0)) return;
  // A task that its group's quota holds up counts as waiting too. The group's figure is that of all
  // its CPUs together.
  const double ready_s = cpu_s + activity.run_wait_s;
  const double throttled_s = base::is_known(activity.throttled_s)
                                 ? std::min(activity.throttled_s, activity.run_wait_s)
                                 : 0;
  environment.run_wait_share = (activity.run_wait_s - throttled_s) / ready_s;
  environment.throttled_share =
      base::is_known(activity.throttled_s) ? throttled_s / ready_s : base::k_unknown;
  const double core_s = activity.core_busy_s + activity.core_stolen_s;
  environment.stolen_share = core_s > 0 ? activity.core_stolen_s / core_s : base::k_unknown;
  environment.switches_per_s = activity.involuntary_switches / cpu_s;
  environment.faults_per_s = activity.major_faults / cpu_s;
}

}  // namespace dynpipe::app
