#include "comm/channel.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>

#include "base/errors.hpp"

namespace dynpipe::comm {

std::string MessageName::to_string() const {
  const char* what = "";
  switch (payload) {
    case Payload::activation:
      what = "activation of microbatch";
      break;
    case Payload::gradient:
      what = "gradient of microbatch";
      break;
    case Payload::gradient_slice:
      what = "weight gradients of update";
      break;
    case Payload::gradient_sum:
      what = "summed gradients of update";
      break;
    case Payload::metrics:
      what = "loss of update";
      break;
    case Payload::stage_times:
      what = "stage times of update";
      break;
    case Payload::control:
      what = "word on update";
      break;
    case Payload::receipt:
      what = "receipt for the checkpoint of update";
      break;
    case Payload::clock:
      what = "time in message";
      break;
  }
  return fmt::format("{} {} from rank {} to rank {}", what, index, from, to);
}

void Channel::wait(Ticket ticket) {
  wait_until([&] { return test(ticket); }, [&] { return name(ticket).to_string(); });
  retire(ticket);
}

void Channel::poll() {
  progress();
  for (const auto& [owner, help] : helpers_) help();
}

void Channel::Patience::look_again(const std::function<std::string()>& what) {
  channel_.poll();
  const WaitPolicy& policy = channel_.policy_;
  const double waited_s = channel_.clock_.now_s() - began_s_;
  if (waited_s > policy.deadline_s) {
    throw base::DeadlineError(fmt::format("waited {:.0f} s for {}", waited_s, what()));
  }
  if (waited_s < policy.spin_s) return;
  timespec nap{};
  constexpr double k_share_of_wait = 0.2;
  const double nap_s =
      std::max(policy.nap_s, std::min(k_share_of_wait * waited_s, policy.longest_nap_s));
  nap.tv_nsec = static_cast<long>(nap_s * 1e9);
  nanosleep(&nap, nullptr);
}

}  // namespace dynpipe::comm
