// Cluster files: what is read, what is refused, what is shipped.
#include "planner/cluster.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "planner/routes.hpp"
#include "support/files.hpp"

namespace dynpipe::planner {
namespace {

const std::string k_small = R"({
  "name": "small",
  "ranks": [{"name": "a"}, {"name": "b", "slowdown": 1.5, "memory_bytes": 8589934592}],
  "switches": ["s"],
  "links": [
    {"name": "up", "from": "a", "to": "s", "latency_s": 1e-6, "bytes_per_s": 1e9},
    {"from": "s", "to": "b", "latency_s": 0, "bytes_per_s": 2e9, "full_duplex": false,
     "overlap": 0.25}],
  "events": [
    {"rank": "b", "start_s": 1, "end_s": 2, "slowdown": 3},
    {"link": "s-b", "start_s": 0.5, "end_s": 1.5, "slowdown": 2},
    {"rank": "b", "start_s": 2, "end_s": 4, "slowdown": 5}],
  "waiting": {"spin_s": 5e-5, "nap_s": 1e-4, "longest_nap_s": 3e-4},
  "jitter": 0.05
})";

/// The small cluster with one part of its text replaced.
std::string with(const std::string& part, const std::string& by) {
  std::string text = k_small;
  const std::size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), by);
}

std::string refusal(const std::string& text) {
  return testing::refusal_of([&] { parse_cluster(text, "c.json"); });
}

TEST(ClusterTest, IsReadFromAFile) {
  const Cluster cluster = parse_cluster(k_small, "c.json");
  EXPECT_EQ(cluster.name, "small");
  ASSERT_EQ(cluster.size(), 2);
  EXPECT_EQ(cluster.ranks[0].slowdown, 1);
  EXPECT_EQ(cluster.ranks[0].memory_bytes, ClusterRank{}.memory_bytes);
  EXPECT_EQ(cluster.ranks[1].slowdown, 1.5);
  EXPECT_EQ(cluster.ranks[1].memory_bytes, std::int64_t{1} << 33);
  ASSERT_EQ(cluster.links.size(), 2U);
  EXPECT_EQ(cluster.links[0].from, 0);
  EXPECT_EQ(cluster.links[0].to, 2);
  EXPECT_TRUE(cluster.links[0].full_duplex);
  EXPECT_EQ(cluster.links[1].name, "s-b");
  EXPECT_FALSE(cluster.links[1].full_duplex);
  EXPECT_EQ(cluster.links[1].overlap, 0.25);
  ASSERT_EQ(cluster.events.size(), 3U);
  EXPECT_EQ(cluster.events[1].of, Interference::Of::link);
  EXPECT_EQ(cluster.events[1].index, 1);
  EXPECT_EQ(cluster.events[2].slowdown, 5);
  EXPECT_EQ(cluster.jitter, 0.05);
  EXPECT_EQ(cluster.waiting.spin_s, 5e-5);
  EXPECT_EQ(cluster.waiting.longest_nap_s, 3e-4);
}

TEST(ClusterTest, IsTheSameAfterWritingAndReading) {
  const std::string written = to_json(parse_cluster(k_small, "c.json"));
  const Cluster again = parse_cluster(written, "again.json");
  EXPECT_EQ(to_json(again), written);
  EXPECT_EQ(again.links[1].overlap, 0.25);
  EXPECT_EQ(again.events[2].end_s, 4);
  const Cluster uniform = uniform_cluster(3, 1e-6, 2.5e9, 0.5);
  EXPECT_EQ(to_json(parse_cluster(to_json(uniform), "u.json")), to_json(uniform));
}

TEST(WaitingTest, NoticesBetweenNapsThatGrowWithTheWait) {
  const Waiting waiting{1, 0.5, 2};
  EXPECT_EQ(Waiting{}.noticed_s(7.3), 7.3);
  EXPECT_EQ(waiting.noticed_s(0.7), 0.7);
  EXPECT_EQ(waiting.noticed_s(1.01), 1.5);
  EXPECT_EQ(waiting.noticed_s(1.5), 1.5);
  // Every look, one after another.
  double look_s = 1;
  for (int look = 0; look < 60; ++look) {
    const double next_s = look_s + std::max(0.5, std::min(0.2 * look_s, 2.0));
    EXPECT_NEAR(waiting.noticed_s(0.5 * (look_s + next_s)), next_s, 1e-9);
    look_s = next_s;
  }
}

TEST(ClusterTest, RefusesWhatIsWrongByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", "c.json: line 1, column 2: not JSON"},
      {with(R"("jitter": 0.05)", R"("jitters": 0.05)"), "unknown field \"jitters\""},
      {with(R"("name": "small",)", ""), "c.json: name: is missing"},
      {with(R"({"name": "a"}, {)", R"({"name": "b"}, {)"), "ranks[1]: name: 'b' is there twice"},
      {with(R"(["s"])", R"(["a"])"), "switches[0]: 'a' is there twice"},
      {with("1.5, \"mem", "0, \"mem"), "ranks[1]: slowdown: must be above 0"},
      {with("8589934592", "-3"), "ranks[1]: memory_bytes: must be at least 1"},
      {with(R"("to": "s", "lat)", R"("to": "t", "lat)"),
       "links[0]: to: 't' is neither a rank nor a switch"},
      {with(R"("to": "s", "lat)", R"("to": "a", "lat)"),
       "links[0]: to: is where the link comes from"},
      {with(R"("latency_s": 1e-6, )", ""), "links[0]: latency_s: is missing"},
      {with("1e-6", "-1e-6"), "links[0]: latency_s: must be at least 0"},
      {with("1e9", "0"), "links[0]: bytes_per_s: must be above 0"},
      {with("1e9", "\"fast\""), "links[0]: bytes_per_s: must be a number"},
      {with("0.25", "1.25"), "links[1]: overlap: must be at least 0"},
      {with(R"({"from": "s",)", R"({"name": "up", "from": "s",)"),
       "links[1]: name: 'up' is there twice"},
      {with(R"({"from": "s", "to": "b",)", R"({"name": "s-b", "from": "a", "to": "s",)"),
       "links: no way leads from rank 'a' to rank 'b'"},
      {with(R"({"rank": "b", "start_s": 1,)", R"({"rank": "c", "start_s": 1,)"),
       "events[0]: rank: there is no rank 'c'"},
      {with(R"("link": "s-b")", R"("link": "x")"), "events[1]: link: there is no link 'x'"},
      {with(R"("link": "s-b")", R"("rank": "a", "link": "s-b")"),
       "events[1]: link: an event is of one rank or of one link"},
      {with(R"("link": "s-b", )", ""), "events[1]: rank: an event is of one rank"},
      {with(R"("end_s": 2,)", R"("end_s": 1,)"), "events[0]: end_s: must be after start_s 1"},
      {with(R"("end_s": 2,)", R"("end_s": 2.5,)"),
       "events[2]: begins at 2 s, before events[0] of the same rank ends"},
      {with(R"("slowdown": 3})", R"("slowdown": 0.5})"), "events[0]: slowdown: must be at least 1"},
      {with("3e-4", "3e-5"), "waiting: longest_nap_s: must be at least 0.0001"},
      {with("0.05", "1"), "jitter: must be at least 0 and below 1"},
      {R"({"name": "none", "ranks": [], "links": []})", "ranks: is empty"},
      {R"({"name": "none", "ranks": {}, "links": []})", "ranks: must be an array"},
  };
  for (const auto& [text, expected] : cases) testing::expect_contains(refusal(text), expected);
}

Cluster shipped(const std::string& name) {
  const std::string file = std::string(DYNPIPE_SOURCE_DIR) + "/data/clusters/" + name + ".json";
  std::ifstream stream(file);
  EXPECT_TRUE(stream) << file;
  std::stringstream text;
  text << stream.rdbuf();
  return parse_cluster(text.str(), file);
}

TEST(ShippedClusterTest, EthernetJoinsEightEqualNodes) {
  const Cluster cluster = shipped("8x-25gbe");
  EXPECT_EQ(cluster.size(), 8);
  EXPECT_NEAR(Routes(cluster).between(0, 7).bytes_per_s, 25e9 / 8 * 1448 / 1538, 1e7);
  EXPECT_DOUBLE_EQ(Routes(cluster).between(0, 7).latency_s, 2.4e-6);
}

TEST(ShippedClusterTest, UnequalNodesHaveFastLinksWithin) {
  const Cluster cluster = shipped("8x-hetero");
  EXPECT_EQ(cluster.size(), 8);
  EXPECT_EQ(cluster.ranks[3].slowdown, 1);
  EXPECT_EQ(cluster.ranks[4].slowdown, 1.42);
  Routes routes(cluster);
  EXPECT_EQ(routes.between(0, 3).bytes_per_s, 15.75e9);
  EXPECT_EQ(routes.between(3, 4).bytes_per_s, 2.94e9);
}

TEST(ShippedClusterTest, TheFatTreeSpreadsOverItsSpines) {
  const Cluster cluster = shipped("64x-fattree");
  EXPECT_EQ(cluster.size(), 64);
  Routes routes(cluster);
  EXPECT_EQ(routes.between(0, 7).channels.size(), 2U);
  EXPECT_EQ(routes.between(0, 8).channels.size(), 4U);
  EXPECT_NE(routes.between(0, 8).channels[1], routes.between(0, 9).channels[1]);
  EXPECT_DOUBLE_EQ(routes.between(0, 8).latency_s, 0.78e-6);
}

}  // namespace
}  // namespace dynpipe::planner
