#include "app/stop_signals.hpp"

#include <fmt/format.h>

#include <cstring>

namespace dynpipe::app {
namespace {

/// A handler can reach nothing but what is static.
volatile std::sig_atomic_t signal_that_came = 0;

void note(int signal) {
  signal_that_came = signal;
}

}  // namespace

StopSignals::StopSignals(double grace_s) : grace_s_(grace_s) {
  signal_that_came = 0;
  struct sigaction action {};
  action.sa_handler = note;
  // No SA_RESTART: a launcher that is about to end the job may read no output any more, and a write
  // to it that has no end must not keep this process from noticing.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, &old_term_);
  sigaction(SIGINT, &action, &old_int_);
}

StopSignals::~StopSignals() {
  sigaction(SIGTERM, &old_term_, nullptr);
  sigaction(SIGINT, &old_int_, nullptr);
}

void StopSignals::check(double now_s) {
  const int signal = signal_that_came;
  if (signal == 0) return;
  if (!noticed_s_) noticed_s_ = now_s;
  if (now_s - *noticed_s_ < grace_s_) return;
  throw StoppedError(fmt::format("stopped by signal {} ({})", signal, strsignal(signal)));
}

}  // namespace dynpipe::app
