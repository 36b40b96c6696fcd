#pragma once

#include <cstdint>
#include <memory>

#include "comm/channel.hpp"

namespace dynpipe::comm {

struct LoopbackOptions {
  std::uint64_t seed = 1;
  /// Messages take a random time below this, and overtake one another.
  double longest_delay_s = 50e-6;
  /// Seeded mistakes, for tests of the tests: deliver without waiting for the sender's data, or for
  /// the receiver's memory; let work that needs a message start without it.
  bool ignore_ready = false;
  bool ignore_free = false;
  bool skip_join = false;
};

/// Ranks as threads of one process. A courier thread copies each message once both ends are ready,
/// after a random delay; memory of a posted receive is NaN until then.
class LoopbackHub {
 public:
  explicit LoopbackHub(LoopbackOptions options);
  ~LoopbackHub();
  LoopbackHub(const LoopbackHub&) = delete;
  LoopbackHub& operator=(const LoopbackHub&) = delete;

  /// One rank's end, to be used by one thread; the hub outlives it.
  std::unique_ptr<Channel> make_channel(int rank, const base::Clock& clock, WaitPolicy policy);

  /// Deliver nothing any more, and end every wait: for when a rank has failed. Any thread may call
  /// it; after that no buffer that was handed over is touched.
  void close();

  class Courier;

 private:
  std::unique_ptr<Courier> courier_;
};

}  // namespace dynpipe::comm
