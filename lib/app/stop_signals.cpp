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
  sigaction(SIGUSR1, &action, &old_user_);
}

StopSignals::~StopSignals() {
  sigaction(SIGTERM, &old_term_, nullptr);
  sigaction(SIGINT, &old_int_, nullptr);
  sigaction(SIGUSR1, &old_user_, nullptr);
}

std::string StopSignals::came() {
  const int signal = signal_that_came;
  return signal == 0 ? "" : fmt::format("signal {} ({})", signal, strsignal(signal));
}

void StopSignals::check(double now_s) {
  if (signal_that_came == 0) return;
  if (!noticed_s_) noticed_s_ = now_s;
  if (now_s - *noticed_s_ < grace_s_) return;
  throw StoppedError("stopped by " + came());
}

}  // namespace dynpipe::app
