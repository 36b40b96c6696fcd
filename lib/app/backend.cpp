#include "app/backend.hpp"

namespace dynpipe::app {

std::unique_ptr<ops::Ops> make_ops(const TrainOptions& options, int threads) {
  return uses_onednn(options) ? ops::make_onednn_ops(threads)
                              : ops::make_reference_ops(options.dtype);
}

}  // namespace dynpipe::app
