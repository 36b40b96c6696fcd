// What a rank that waits costs its neighbours, and how fast it wakes: rank 0 keeps the others
// waiting for a while, then sends each the time.
//
// mpirun -n 2 waiting_bench [SPIN_US SHORTEST_NAP_US LONGEST_NAP_US]
#include <fmt/format.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/clock.hpp"
#include "comm/mpi/mpi.hpp"

namespace {

using namespace dynpipe;

double cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void run(comm::World& world, comm::WaitPolicy policy) {
  prctl(PR_SET_TIMERSLACK, 1000UL);
  const base::SteadyClock clock;
  const auto channel = comm::make_mpi_channel(world, clock, policy);
  constexpr int k_rounds = 100;
  constexpr double k_pause_s = 0.02;
  std::vector<double> wakes_s;
  double waited_s = 0, used_s = 0;
  for (int round = 0; round < k_rounds; ++round) {
    world.barrier();
    if (world.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::duration<double>(k_pause_s));
      std::vector<comm::Ticket> sent;
      const double now_s = clock.now_s();
      for (int to = 1; to < world.size(); ++to) {
        sent.push_back(channel->send({comm::Payload::metrics, round, 0, to},
                                     std::as_bytes(std::span(&now_s, 1)), {}));
      }
      for (const comm::Ticket ticket : sent) channel->wait(ticket);
      continue;
    }
    double sent_s = 0;
    const double began_s = clock.now_s(), used_before_s = cpu_s();
    channel->wait(channel->receive({comm::Payload::metrics, round, 0, world.rank()},
                                   std::as_writable_bytes(std::span(&sent_s, 1)), {}));
    const double now_s = clock.now_s();
    wakes_s.push_back(now_s - sent_s);
    waited_s += now_s - began_s;
    used_s += cpu_s() - used_before_s;
  }
  if (world.rank() != 1) return;
  std::sort(wakes_s.begin(), wakes_s.end());
  fmt::print(
      "a waiting rank takes {:.1f} % of a core, wakes after {:.3f} ms (90 % within {:.3f})\n",
      100 * used_s / waited_s, 1e3 * wakes_s[k_rounds / 2], 1e3 * wakes_s[k_rounds * 9 / 10]);
}

}  // namespace

int main(int argc, char** argv) {
  const auto world = comm::make_mpi_world(&argc, &argv);
  comm::WaitPolicy policy{.deadline_s = 60};
  if (argc > 3) {
    policy.spin_s = 1e-6 * std::atof(argv[1]);
    policy.nap_s = 1e-6 * std::atof(argv[2]);
    policy.longest_nap_s = 1e-6 * std::atof(argv[3]);
  }
  run(*world, policy);
  return 0;
}
