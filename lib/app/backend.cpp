#include "app/backend.hpp"

#include <sys/prctl.h>

namespace dynpipe::app {

std::unique_ptr<ops::Ops> make_ops(const TrainOptions& options, int threads) {
  return uses_onednn(options) ? ops::make_onednn_ops(threads)
                              : ops::make_reference_ops(options.dtype);
}

comm::WaitPolicy wait_policy(double deadline_s, bool has_its_cores) {
  // The default slack of 50 us would stretch every nap by half.
  prctl(PR_SET_TIMERSLACK, 1000UL);
  comm::WaitPolicy policy;
  policy.deadline_s = deadline_s;
  policy.spin_s = has_its_cores ? comm::WaitPolicy::k_spin_on_own_core_s : 0;
  return policy;
}

}  // namespace dynpipe::app
