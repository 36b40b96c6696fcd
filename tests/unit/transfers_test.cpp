// Messages that come and go, against a program that shares all links anew whenever anything
// changes.
#include "planner/transfers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/random.hpp"
#include "support/water_filling.hpp"

namespace dynpipe::planner {
namespace {

constexpr double k_never = std::numeric_limits<double>::infinity();

struct Message {
  int from, to;
  double bytes, depart_s;
};

/// Speed of a link at a time: 1 undisturbed.
double speed(const Cluster& cluster, std::size_t link, double now_s) {
  for (const Interference& event : cluster.events) {
    if (event.of == Interference::Of::link && static_cast<std::size_t>(event.index) == link &&
        event.start_s <= now_s && now_s < event.end_s) {
      return 1 / event.slowdown;
    }
  }
  return 1;
}

/// When each message arrives, worked out from moment to moment.
std::vector<double> arrivals_of(const Cluster& cluster, const std::vector<Message>& messages) {
  Routes routes(cluster);
  const auto links = timelines(cluster.events, Interference::Of::link, cluster.links.size());
  std::vector<double> flows_from_s, left, arrivals_s(messages.size(), k_never);
  for (const Message& message : messages) {
    double at_s = message.depart_s;
    for (int c : routes.between(message.from, message.to).channels) {
      const auto l = static_cast<std::size_t>(c / 2);
      at_s = links[l].end_s(at_s, cluster.links[l].latency_s);
    }
    flows_from_s.push_back(at_s);
    left.push_back(message.bytes);
  }
  double now_s = 0;
  for (;;) {
    std::vector<double> capacities;
    for (int c = 0; c < routes.channels(); ++c) {
      capacities.push_back(routes.capacity(c) *
                           speed(cluster, static_cast<std::size_t>(c / 2), now_s));
    }
    testing::FlowChannels flowing;
    double next_s = k_never;
    for (std::size_t m = 0; m < messages.size(); ++m) {
      if (arrivals_s[m] < k_never) continue;
      if (flows_from_s[m] > now_s) {
        next_s = std::min(next_s, flows_from_s[m]);
      } else {
        flowing[static_cast<int>(m)] = routes.between(messages[m].from, messages[m].to).channels;
      }
    }
    const auto rates = testing::water_filling(capacities, flowing);
    for (const auto& [m, rate] : rates) {
      next_s = std::min(next_s, now_s + left[static_cast<std::size_t>(m)] / rate);
    }
    for (const Interference& event : cluster.events) {
      if (event.start_s > now_s) next_s = std::min(next_s, event.start_s);
      if (event.end_s > now_s) next_s = std::min(next_s, event.end_s);
    }
    if (flowing.empty() && next_s == k_never) return arrivals_s;
    for (const auto& [m, rate] : rates) {
      const auto at = static_cast<std::size_t>(m);
      left[at] -= rate * (next_s - now_s);
      if (left[at] < 1e-9 * messages[at].bytes) arrivals_s[at] = next_s;
    }
    now_s = next_s;
  }
}

/// Two switches, ranks on both, links of unequal rates, some half-duplex, disturbed ones among
/// them.
struct Traffic {
  explicit Traffic(std::uint64_t seed) {
    const base::Philox random(seed, "traffic");
    std::uint64_t draws = 0;
    const auto below = [&](int bound) {
      return static_cast<int>(random.below(draws++, static_cast<std::uint64_t>(bound)));
    };
    const int ranks = 2 + below(7);
    cluster.ranks.resize(static_cast<std::size_t>(ranks));
    cluster.switches.resize(2);
    for (int rank = 0; rank <= ranks; ++rank) {  // the last one joins the switches
      const int to = rank == ranks ? ranks + 1 : ranks + below(2);
      cluster.links.push_back({"", rank, to, 0.1 * below(3), 1.0 + below(9), below(3) > 0, 1});
    }
    for (int link = 0; link <= ranks; ++link) {
      if (below(3) > 0) continue;
      const double start_s = below(20);
      const double middle_s = start_s + 1 + below(10);
      cluster.events.push_back({Interference::Of::link, link, start_s, middle_s, 2.0 + below(3)});
      cluster.events.push_back({Interference::Of::link, link, middle_s, middle_s + 5, 1.5});
    }
    for (int count = 1 + below(40); count > 0; --count) {
      const int from = below(ranks);
      const int to = (from + 1 + below(ranks - 1)) % ranks;
      messages.push_back({from, to, 1.0 + below(30), 0.5 * below(60)});
    }
  }

  Cluster cluster;
  std::vector<Message> messages;
};

TEST(TransfersTest, ArriveWhenSharingAllAnewAtEveryMomentSaysSo) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Traffic traffic(seed);
    const auto expected = arrivals_of(traffic.cluster, traffic.messages);
    Transfers transfers(traffic.cluster);
    for (std::size_t m = 0; m < traffic.messages.size(); ++m) {
      const Message& message = traffic.messages[m];
      const double known = transfers.depart(transfers.route(message.from, message.to),
                                            message.bytes, message.depart_s, m);
      ASSERT_EQ(known, Transfers::k_under_way);
    }
    std::size_t arrived = 0;
    double before_s = 0;
    while (transfers.advance()) {
      for (const Transfers::Arrival& arrival : transfers.arrivals()) {
        ASSERT_GE(arrival.time_s, before_s);
        before_s = arrival.time_s;
        ASSERT_NEAR(arrival.time_s, expected[arrival.tag], 1e-6) << "seed " << seed;
        ++arrived;
      }
    }
    ASSERT_EQ(arrived, traffic.messages.size());
  }
}

TEST(TransfersTest, WhatSharesNothingArrivesAtOnceKnown) {
  const Cluster cluster = uniform_cluster(2, 0.5, 100);
  Transfers transfers(cluster);
  EXPECT_EQ(transfers.depart(transfers.route(0, 1), 0, 3, 7), 4);
  EXPECT_FALSE(transfers.advance());
}

}  // namespace
}  // namespace dynpipe::planner
